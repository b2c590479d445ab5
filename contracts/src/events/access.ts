import { z } from 'zod';
import { entityTypes } from '../api/logs.ts';
import { permissionName, transforms } from '../permissions.ts';
import { defineEvent, unchanged } from './registry.ts';

/** Token data is about to be shown: durable before the answer leaves. One entry of the log for each token. */
export const TokensRead = defineEvent(
  'TokensRead',
  z.object({
    /** `deduplicate`: a create or an update met the token, and answered with it. */
    operation: z.enum(['read', 'list', 'search', 'use', 'deduplicate']),
    /** None: a list or a search that found nothing. */
    tokens: z.array(
      z.object({ token_id: z.string(), token_type: z.string(), transform: z.enum(transforms) }),
    ),
  }),
  // Version 2 knows `deduplicate`.
  [unchanged],
);

/** Tokens are about to leave in plaintext, sealed to these public keys: durable before a byte is written. */
export const TokensExported = defineEvent(
  'TokensExported',
  z.object({
    /** The same for every event of one export, and the trace of its import elsewhere. */
    export_id: z.uuid(),
    /** As age writes them: `age1…`. */
    recipients: z.array(z.string()).min(1),
    tokens: z.array(z.object({ token_id: z.string(), token_type: z.string() })),
  }),
);

/** Something other than token data was read. Without `entity_ids` the whole list was asked for. */
export const EntitiesRead = defineEvent(
  'EntitiesRead',
  z.object({
    entity_type: z.enum(entityTypes),
    operation: z.enum(['read', 'list']),
    entity_ids: z.array(z.string()),
  }),
);

/** A known caller was refused (403). */
export const AccessDenied = defineEvent(
  'AccessDenied',
  z.object({
    entity_type: z.enum(entityTypes),
    entity_id: z.string().optional(),
    permission: permissionName.optional(),
    operation: z.string(),
  }),
);

/** A key that was valid once was refused (401), so the tenant is known. */
export const AuthenticationFailed = defineEvent(
  'AuthenticationFailed',
  z.object({ application_id: z.uuid().optional(), session_id: z.uuid().optional(), reason: z.string() }),
);

export const accessEvents = [
  TokensRead,
  EntitiesRead,
  AccessDenied,
  AuthenticationFailed,
  TokensExported,
] as const;
