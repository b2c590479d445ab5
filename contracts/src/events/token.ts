import { z } from 'zod';
import { storedSetter } from '../description-setter.ts';
import { transforms } from '../permissions.ts';
import { anyJson } from '../text.ts';
import { defineEvent, unchanged } from './registry.ts';
import { keyId, moment, requiredSignature, sealedValue, signature } from './sealed.ts';

const identity = { token_id: z.string(), token_type: z.string() };

/** The fields that decide which part of the data other callers see, or are computed from the data. */
export const descriptions = ['mask', 'search_indexes', 'fingerprint_expression'] as const;

/** The whole token after the event. The projection writes it to the row unchanged. */
const content = {
  /** Without the `cvc` of a card, which is sealed under another key. */
  data: sealedValue,
  cvc: sealedValue.optional(),
  /** When the cvc is no longer shown and its key is destroyed (interface.md, card data shape). */
  cvc_expires_at: moment.optional(),
  mask: anyJson.optional(),
  containers: z.array(z.string()),
  metadata: z.record(z.string(), z.string()).optional(),
  search_indexes: z.array(z.string()).optional(),
  /** Keyed hashes of the values of the search indexes. */
  index_hashes: z.array(z.string()).optional(),
  /** Signs `index_hashes`. Absent when there are none, and in events of a release that did not sign them (ADR 20). */
  index_signature: signature,
  fingerprint: z.string().optional(),
  fingerprint_expression: z.string().optional(),
  deduplicate_token: z.boolean().optional(),
  expires_at: moment.optional(),
  /**
   * The callers that set these fields by a PATCH, without the creator of the token. A field of a caller that does not see the data ends when another caller
   * changes the data (rules.md §5).
   */
  set_without_sight: z.partialRecord(z.enum([...descriptions, 'deduplicate_token']), storedSetter).optional(),
  signature,
};
export type TokenContent = z.infer<z.ZodObject<typeof content>>;

/**
 * How the answer to the write showed the token's data, as part of the log entry of the write. Added in version 2. Absent when a TokensRead
 * event records it, which stays valid even if the write's transaction is rolled back.
 */
const shown = z.enum(transforms).optional();

/**
 * Version 1 has the content only. Version 2 has all fields except `set_without_sight`. Version 4 may carry a signature of form 2, as may
 * TokenSigned 2 and TokenCvcPurged 3. Version 5 may have objects in `set_without_sight`.
 */
export const TokenCreated = defineEvent('TokenCreated', z.object({ ...identity, ...content, shown }), [
  unchanged,
  unchanged,
  unchanged,
  unchanged,
]);
/** The whole token after the change, so no earlier event has to be read. Its versions are those of TokenCreated. */
export const TokenUpdated = defineEvent(
  'TokenUpdated',
  z.object({
    ...identity,
    ...content,
    shown,
    created_by: z.string().optional(),
    created_at: moment.optional(),
    /** Data keys that this event destroys: the key of a cvc that was replaced or removed. */
    key_ids: z.array(keyId).optional(),
  }),
  [unchanged, unchanged, unchanged, unchanged],
);
/** Signs a token of a release that did not sign tokens, in its present state. */
export const TokenSigned = defineEvent(
  'TokenSigned',
  z.object({ ...identity, signature: requiredSignature }),
  [unchanged],
);

/** `key_ids`: the data keys that this event destroys. */
const ended = z.object({ ...identity, key_ids: z.array(keyId) });
export const TokenDeleted = defineEvent('TokenDeleted', ended);
export const TokenExpired = defineEvent('TokenExpired', ended);
export const TokenCvcPurged = defineEvent('TokenCvcPurged', ended.extend({ signature }), [
  unchanged,
  unchanged,
]);

/**
 * A fingerprint was claimed for the token, but the token's stream has no event that uses the claim: the writer stopped half-way, or is
 * slow. This event is written to the token's stream, so that a slow writer that goes on meets a revision conflict. It does not change the
 * token.
 */
export const FingerprintClaimVoided = defineEvent(
  'FingerprintClaimVoided',
  z.object({ fingerprint: z.string(), token_id: z.string() }),
);

/** `KeysAbandoned` of a token, of a release that swept the keys of tokens only. */
export const TokenKeysAbandoned = defineEvent(
  'TokenKeysAbandoned',
  z.object({ token_id: z.string(), abandoned_key_ids: z.array(keyId) }),
);

/**
 * `released_token_ids`: earlier claims that end by this one. They are no events of their own: the number of events would tell the caller that
 * a token had this data before.
 */
export const FingerprintClaimed = defineEvent(
  'FingerprintClaimed',
  z.object({
    fingerprint: z.string(),
    token_id: z.string(),
    released_token_ids: z.array(z.string()).optional(),
  }),
  [unchanged],
);
export const FingerprintReleased = defineEvent(
  'FingerprintReleased',
  z.object({ fingerprint: z.string(), token_id: z.string() }),
);

/** The events in the stream of a token. */
export const ownTokenEvents = [
  TokenCreated,
  TokenUpdated,
  TokenSigned,
  TokenDeleted,
  TokenExpired,
  TokenCvcPurged,
  FingerprintClaimVoided,
  TokenKeysAbandoned,
] as const;

export const tokenEvents = [...ownTokenEvents, FingerprintClaimed, FingerprintReleased] as const;
