import { z } from 'zod';
import { projectionActions } from '../api/console.ts';
import { entityTypes } from '../names.ts';
import { permissionName, transforms } from '../permissions.ts';
import { defineEvent, unchanged } from './registry.ts';

/** A rule with `break_glass` revealed the token: the tenant's security webhook must be sent. */
const breakGlass = z.literal(true).optional();

/** Recorded before token data is shown: the event is durable before the answer leaves. The log shows one entry for each token. */
export const TokensRead = defineEvent(
  'TokensRead',
  z.object({
    /** `deduplicate`: a create or an update found an existing token with the same fingerprint and answered with it. */
    operation: z.enum(['read', 'list', 'search', 'use', 'deduplicate']),
    /** Empty when a list or a search found no tokens, or showed none of those it found. */
    tokens: z.array(
      z.object({
        token_id: z.string(),
        token_type: z.string(),
        transform: z.enum(transforms),
        break_glass: breakGlass,
      }),
    ),
    /** The total in the answer, when its page held none of the tokens (size 0, or a page beyond the last one). */
    found: z.int().positive().optional(),
  }),
  // Version 2 added `deduplicate`, version 3 `break_glass`, version 4 `found`.
  [unchanged, unchanged, unchanged],
);

/**
 * Recorded before tokens are exported in plaintext, encrypted to these public keys. The event is durable before the first byte is written.
 */
export const TokensExported = defineEvent(
  'TokensExported',
  z.object({
    /** The same for all events of one export. The import into another vault uses it as its trace id. */
    export_id: z.uuid(),
    /** Recipients in the format of age: `age1…`. */
    recipients: z.array(z.string()).min(1),
    tokens: z.array(z.object({ token_id: z.string(), token_type: z.string(), break_glass: breakGlass })),
  }),
  [unchanged],
);

/** An entity other than token data was read. Without `entity_ids` the whole list was read. */
export const EntitiesRead = defineEvent(
  'EntitiesRead',
  z.object({
    entity_type: z.enum(entityTypes),
    operation: z.enum(['read', 'list']),
    entity_ids: z.array(z.string()),
  }),
);

/** An authenticated caller was refused (403). */
export const AccessDenied = defineEvent(
  'AccessDenied',
  z.object({
    entity_type: z.enum(entityTypes),
    entity_id: z.string().optional(),
    permission: permissionName.optional(),
    operation: z.string(),
  }),
);

/** A key that is no longer valid was refused (401). The key is known, so the tenant is known. */
export const AuthenticationFailed = defineEvent(
  'AuthenticationFailed',
  z.object({ application_id: z.uuid().optional(), session_id: z.uuid().optional(), reason: z.string() }),
);

/** The operator of the vault controlled a projection. */
export const ProjectionCommanded = defineEvent(
  'ProjectionCommanded',
  z.object({ projection: z.string(), action: z.enum(projectionActions) }),
);

export const accessEvents = [
  TokensRead,
  EntitiesRead,
  AccessDenied,
  AuthenticationFailed,
  TokensExported,
  ProjectionCommanded,
] as const;
