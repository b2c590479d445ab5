import { z } from 'zod';
import { accessRuleCondition } from '../api/access-rules.ts';
import { applicationTypes, permissionName, transforms } from '../permissions.ts';
import { defineEvent, unchanged } from './registry.ts';
import { moment, requiredSignature, signature } from './sealed.ts';

/** SHA-256 (hex) of an API key of at least 128 random bits. */
const keyHash = z.string().regex(/^[0-9a-f]{64}$/);

/** Rules as events keep them. Looser than the request schema, which may tighten without a new event version. */
export const recordedRule = z.object({
  description: z.string().optional(),
  priority: z.int(),
  container: z.string().optional(),
  conditions: z.array(accessRuleCondition).optional(),
  transform: z.enum(transforms),
  permissions: z.array(permissionName),
  search_data: z.boolean().optional(),
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
  [unchanged],
);
export const ApplicationUpdated = defineEvent(
  'ApplicationUpdated',
  z.object({ application_id: applicationId, name: z.string(), ...granted, signature }),
  [unchanged],
);
export const ApplicationKeyRegenerated = defineEvent(
  'ApplicationKeyRegenerated',
  z.object({ application_id: applicationId, key_hash: keyHash, signature }),
  [unchanged],
);
/** An application of a release before signatures is signed as it is. */
export const ApplicationSigned = defineEvent(
  'ApplicationSigned',
  z.object({ application_id: applicationId, signature: requiredSignature }),
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
  }),
);
export const SessionAuthorized = defineEvent(
  'SessionAuthorized',
  z.object({
    session_id: z.uuid(),
    authorized_by: applicationId,
    ...granted,
    expires_at: moment,
    signature,
  }),
  [unchanged],
);
export const SessionExpired = defineEvent('SessionExpired', z.object({ session_id: z.uuid() }));

export const sessionEvents = [SessionOpened, SessionAuthorized, SessionExpired] as const;
