import { z } from 'zod';
import { defineEvent } from './registry.ts';
import { moment } from './sealed.ts';

const identity = { transaction_id: z.uuid() };
export const TransactionOpened = defineEvent(
  'TransactionOpened',
  z.object({ ...identity, expires_at: moment }),
);
/** A token is about to be written in the transaction: at its end, its keys are seen to. */
export const TransactionTokenEnlisted = defineEvent(
  'TransactionTokenEnlisted',
  z.object({ ...identity, token_id: z.string() }),
);
export const TransactionCommitted = defineEvent('TransactionCommitted', z.object(identity));
export const TransactionRolledBack = defineEvent('TransactionRolledBack', z.object(identity));
export const TransactionExpired = defineEvent('TransactionExpired', z.object(identity));

export const transactionEvents = [
  TransactionOpened,
  TransactionTokenEnlisted,
  TransactionCommitted,
  TransactionRolledBack,
  TransactionExpired,
] as const;
