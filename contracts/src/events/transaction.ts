import { z } from 'zod';
import { defineEvent } from './registry.ts';
import { moment } from './sealed.ts';

const identity = { transaction_id: z.uuid() };
export const TransactionOpened = defineEvent(
  'TransactionOpened',
  z.object({ ...identity, expires_at: moment }),
);
export const TransactionCommitted = defineEvent('TransactionCommitted', z.object(identity));
export const TransactionRolledBack = defineEvent('TransactionRolledBack', z.object(identity));
export const TransactionExpired = defineEvent('TransactionExpired', z.object(identity));

export const transactionEvents = [
  TransactionOpened,
  TransactionCommitted,
  TransactionRolledBack,
  TransactionExpired,
] as const;
