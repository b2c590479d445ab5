import { z } from 'zod';
import { accessRuleCondition, reasonDemands } from '../api/access-rules.ts';
import { applicationTypes, permissionName, transforms } from '../permissions.ts';
import { defineEvent, unchanged } from './registry.ts';
import { moment, requiredSignature, signature } from './sealed.ts';

/** SHA-256 (hex) of an API key of at least 128 random bits. */
const keyHash = z.string().regex(/^[0-9a-f]{64}$/);

/**
 * Rules as events store them. Less strict than the request schema, so the request schema may become stricter without a new event version.
 */
export const recordedRule = z.object({
  description: z.string().optional(),
  priority: z.int(),
  container: z.string().optional(),
  conditions: z.array(accessRuleCondition).optional(),
  transform: z.enum(transforms),
  permissions: z.array(permissionName),
  search_data: z.boolean().optional(),
  reason: z.enum(reasonDemands).optional(),
  break_glass: z.boolean().optional(),
});
const granted = { permissions: z.array(permissionName), rules: z.array(recordedRule) };
const applicationId = z.uuid();

export const ApplicationCreated = defineEvent(
  'ApplicationCreated',
  z.object({
    application_id: applicationId,
    name: z.string(),
    type: z.enum(applicationTypes),
    key_hash: keyHash,
    ...granted,
    expires_at: moment.optional(),
    signature,
  }),
  // Version 3 allows `reason` and `break_glass` in rules, as do version 3 of the next event and version 4 of SessionAuthorized. The last version
  // of each signed event of an application may carry a signature of form 2.
  [unchanged, unchanged, unchanged],
);
export const ApplicationUpdated = defineEvent(
  'ApplicationUpdated',
  z.object({ application_id: applicationId, name: z.string(), ...granted, signature }),
  [unchanged, unchanged, unchanged],
);
/** A key other than the main key. */
const recordedKey = z.object({
  id: z.uuid(),
  hash: keyHash,
  created_at: moment,
  expires_at: moment.optional(),
});
export const storedKeys = z.array(recordedKey);

export const ApplicationKeyRegenerated = defineEvent(
  'ApplicationKeyRegenerated',
  z.object({
    application_id: applicationId,
    key_hash: keyHash,
    /** Version 3 added the id of the new main key, and all other keys of the application after the change. */
    key_id: z.uuid().optional(),
    keys: storedKeys.optional(),
    /** The hash of the replaced main key, when that key stays valid for a while. */
    kept_key_hash: keyHash.optional(),
    signature,
  }),
  [unchanged, unchanged, unchanged],
);
/** The application got another key. `keys` has all keys except the main key, after the change. */
export const ApplicationKeyAdded = defineEvent(
  'ApplicationKeyAdded',
  z.object({
    application_id: applicationId,
    key_id: z.uuid(),
    key_hash: keyHash,
    keys: storedKeys,
    signature,
  }),
  [unchanged],
);
/** A key was deleted. `keys` has all keys except the main key, after the change. */
export const ApplicationKeyDeleted = defineEvent(
  'ApplicationKeyDeleted',
  z.object({
    application_id: applicationId,
    key_id: z.uuid(),
    key_hash: keyHash,
    was_main: z.boolean(),
    keys: storedKeys,
    signature,
  }),
  [unchanged],
);
/** Signs an application of a release that did not sign applications, in its present state. */
export const ApplicationSigned = defineEvent(
  'ApplicationSigned',
  z.object({ application_id: applicationId, signature: requiredSignature }),
  [unchanged],
);
export const ApplicationDeleted = defineEvent(
  'ApplicationDeleted',
  z.object({ application_id: applicationId }),
);
export const ApplicationExpired = defineEvent(
  'ApplicationExpired',
  z.object({ application_id: applicationId }),
);

export const applicationEvents = [
  ApplicationCreated,
  ApplicationUpdated,
  ApplicationKeyRegenerated,
  ApplicationKeyAdded,
  ApplicationKeyDeleted,
  ApplicationSigned,
  ApplicationDeleted,
  ApplicationExpired,
] as const;

export const SessionOpened = defineEvent(
  'SessionOpened',
  z.object({
    session_id: z.uuid(),
    application_id: applicationId,
    key_hash: keyHash,
    nonce_hash: keyHash,
    expires_at: moment,
    /** Version 2 added the hash of the key by which the application opened the session. The session ends when that key does. */
    opener_key_hash: keyHash.optional(),
    /** Version 3 is signed. */
    signature,
  }),
  [unchanged, unchanged],
);
export const SessionAuthorized = defineEvent(
  'SessionAuthorized',
  z.object({
    session_id: z.uuid(),
    authorized_by: applicationId,
    ...granted,
    expires_at: moment,
    /** Version 3 added the hash of the key by which the application authorised the session. The session ends when that key does. */
    authorizer_key_hash: keyHash.optional(),
    signature,
  }),
  [unchanged, unchanged, unchanged],
);
export const SessionExpired = defineEvent('SessionExpired', z.object({ session_id: z.uuid() }));

export const sessionEvents = [SessionOpened, SessionAuthorized, SessionExpired] as const;

/**
 * A browser signed in to the console. `members` are the applications whose keys were used. When such a key ends, the session ends for its
 * application. The session ends at `ends_at` unless it is used before, and at `expires_at` in any case.
 */
export const ConsoleSessionOpened = defineEvent(
  'ConsoleSessionOpened',
  z.object({
    session_id: z.uuid(),
    /** SHA-256 (hex) of the secret in the cookie. */
    secret_hash: keyHash,
    members: z
      .array(
        z.object({
          application_id: applicationId,
          application_type: z.enum(applicationTypes),
          key_hash: keyHash,
        }),
      )
      .min(1),
    ends_at: moment,
    expires_at: moment,
    signature: requiredSignature,
  }),
);
/** The session is in use. Stored every few minutes, not for each request. */
export const ConsoleSessionUsed = defineEvent(
  'ConsoleSessionUsed',
  z.object({ session_id: z.uuid(), ends_at: moment, signature: requiredSignature }),
);
export const ConsoleSessionEnded = defineEvent(
  'ConsoleSessionEnded',
  z.object({
    session_id: z.uuid(),
    reason: z.enum(['signed_out', 'replaced']),
    /** Version 2 added the session of the same tenant that replaced this one. */
    replaced_by: z.uuid().optional(),
  }),
  [unchanged],
);
export const ConsoleSessionExpired = defineEvent('ConsoleSessionExpired', z.object({ session_id: z.uuid() }));

export const consoleSessionEvents = [
  ConsoleSessionOpened,
  ConsoleSessionUsed,
  ConsoleSessionEnded,
  ConsoleSessionExpired,
] as const;
