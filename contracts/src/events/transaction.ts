import { z } from 'zod';
import { defineEvent, unchanged } from './registry.ts';
import { keyId, moment } from './sealed.ts';

const identity = { transaction_id: z.uuid() };
export const TransactionOpened = defineEvent(
  'TransactionOpened',
  z.object({ ...identity, expires_at: moment }),
);
/**
 * A token is about to be written in the transaction: at its end, its keys are seen to. Version 2 says which keys that may be, so that
 * the end of a large transaction need not read all its tokens.
 */
export const TransactionTokenEnlisted = defineEvent(
  'TransactionTokenEnlisted',
  z.object({
    ...identity,
    token_id: z.string(),
    /** Of the token's last event, -1 if it has none: the write, if it comes, is the next one. */
    revision: z.int().min(-1).optional(),
    write: z.enum(['create', 'update', 'delete']).optional(),
    /** Data keys made for the write. */
    new_key_ids: z.array(keyId).optional(),
    /** Whether the commit leaves keys of the token unneeded. */
    erases: z.boolean().optional(),
  }),
  [unchanged],
);
/** An application opened a transaction while it had others open, all of which are named: how many it may have is limited. */
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
