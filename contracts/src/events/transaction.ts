import { z } from 'zod';
import { defineEvent, unchanged } from './registry.ts';
import { keyId, moment } from './sealed.ts';

const identity = { transaction_id: z.uuid() };
export const TransactionOpened = defineEvent(
  'TransactionOpened',
  z.object({
    ...identity,
    expires_at: moment,
    /**
     * Version 2 added the SHA-256 of the key by which the caller opened the transaction, as hex. The transaction ends with that key. Absent
     * when the vault opened it for the work of one request.
     */
    key_hash: z
      .string()
      .regex(/^[0-9a-f]{64}$/)
      .optional(),
  }),
  [unchanged],
);
/**
 * Recorded before a token is written in the transaction. When the transaction ends, the unneeded keys of the token are destroyed. Version 2
 * names the keys, so that the end of a large transaction does not have to read all its tokens. Version 3 names the rights by which the
 * write was decided, and the expiry of the token: a commit after either has changed is refused.
 */
export const TransactionTokenEnlisted = defineEvent(
  'TransactionTokenEnlisted',
  z.object({
    ...identity,
    token_id: z.string(),
    /** Revision of the token's last event, -1 if it has none. The write, if it is made, has the next revision. */
    revision: z.int().min(-1).optional(),
    write: z.enum(['create', 'update', 'delete']).optional(),
    /** Data keys that were made for the write. */
    new_key_ids: z.array(keyId).optional(),
    /** Whether the token has keys that are unneeded after the commit. */
    erases: z.boolean().optional(),
    /** The bytes of what the write stores; characters in events of an older release. Absent in events of a release that did not bound it. */
    size: z.int().min(0).optional(),
    /** SHA-256 of the caller's permissions and rules when the write was decided, as hex. */
    rights: z.string().optional(),
    /** The expiry of the token before the write. */
    token_expires_at: moment.optional(),
  }),
  [unchanged, unchanged],
);
/** An application opened a transaction while others of it were open. Names all of them, because their number is limited. */
export const TransactionCounted = defineEvent(
  'TransactionCounted',
  z.object({ application_id: z.string(), open: z.array(z.uuid()) }),
);
export const TransactionCommitted = defineEvent('TransactionCommitted', z.object(identity));
export const TransactionRolledBack = defineEvent('TransactionRolledBack', z.object(identity));
export const TransactionExpired = defineEvent('TransactionExpired', z.object(identity));

export const transactionEvents = [
  TransactionOpened,
  TransactionTokenEnlisted,
  TransactionCounted,
  TransactionCommitted,
  TransactionRolledBack,
  TransactionExpired,
] as const;
