import { z } from 'zod';
import { transforms } from '../permissions.ts';
import { anyJson } from '../text.ts';
import { defineEvent, unchanged } from './registry.ts';
import { keyId, moment, requiredSignature, sealedValue, signature } from './sealed.ts';

const identity = { token_id: z.string(), token_type: z.string() };

/** Everything a token is after the event: a projection writes it as it stands. */
const content = {
  /** Without a card's `cvc`, which is sealed apart. */
  data: sealedValue,
  cvc: sealedValue.optional(),
  /** When the cvc stops being shown and its key is destroyed (interface.md, card data shape). */
  cvc_expires_at: moment.optional(),
  mask: anyJson.optional(),
  containers: z.array(z.string()),
  metadata: z.record(z.string(), z.string()).optional(),
  search_indexes: z.array(z.string()).optional(),
  /** Keyed hashes of the evaluated search indexes. */
  index_hashes: z.array(z.string()).optional(),
  fingerprint: z.string().optional(),
  fingerprint_expression: z.string().optional(),
  deduplicate_token: z.boolean().optional(),
  expires_at: moment.optional(),
  signature,
};
export const tokenContent = z.object(content);
export type TokenContent = z.infer<typeof tokenContent>;

/**
 * How the answer of the write showed the token's data: part of the write's own entry in the log. Version 2 has it; it is absent
 * where the showing has a record of its own, since it has happened even if the write's transaction is rolled back.
 */
const shown = z.enum(transforms).optional();

export const TokenCreated = defineEvent('TokenCreated', z.object({ ...identity, ...content, shown }), [
  unchanged,
]);
/** The whole token after the change, so that nothing before it need be read. Version 2 has all but the content. */
export const TokenUpdated = defineEvent(
  'TokenUpdated',
  z.object({
    ...identity,
    ...content,
    shown,
    created_by: z.string().optional(),
    created_at: moment.optional(),
    /** The data keys whose destruction this event decides: of a cvc that was replaced or taken back. */
    key_ids: z.array(keyId).optional(),
  }),
  [unchanged],
);
/** A token of a release before signatures is signed as it is. */
export const TokenSigned = defineEvent(
  'TokenSigned',
  z.object({ ...identity, signature: requiredSignature }),
);

/** `key_ids`: the data keys whose destruction this event decides. */
const ended = z.object({ ...identity, key_ids: z.array(keyId) });
export const TokenDeleted = defineEvent('TokenDeleted', ended);
export const TokenExpired = defineEvent('TokenExpired', ended);
export const TokenCvcPurged = defineEvent('TokenCvcPurged', ended.extend({ signature }), [unchanged]);

/**
 * The token's stream says nothing of a fingerprint that was claimed for it: its writer stopped half-way, or is slow. Written
 * on that stream, so that the slow writer, should it wake, meets a revision conflict. Changes nothing of the token.
 */
export const FingerprintClaimVoided = defineEvent(
  'FingerprintClaimVoided',
  z.object({ fingerprint: z.string(), token_id: z.string() }),
);

export const FingerprintClaimed = defineEvent(
  'FingerprintClaimed',
  z.object({ fingerprint: z.string(), token_id: z.string() }),
);
export const FingerprintReleased = defineEvent(
  'FingerprintReleased',
  z.object({ fingerprint: z.string(), token_id: z.string() }),
);

export const tokenEvents = [
  TokenCreated,
  TokenUpdated,
  TokenSigned,
  TokenDeleted,
  TokenExpired,
  TokenCvcPurged,
  FingerprintClaimed,
  FingerprintReleased,
  FingerprintClaimVoided,
] as const;
