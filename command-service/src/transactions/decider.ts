import {
  ConflictError,
  NotFoundError,
  TransactionCommitted,
  TransactionExpired,
  TransactionOpened,
  TransactionRolledBack,
} from '@token-vault/contracts';
import { fact, type Decider, type Fact } from '../aggregates/decider.ts';
import { evolve, initialState, type TransactionState } from './state.ts';

export type TransactionCommand =
  | { readonly kind: 'open'; readonly id: string; readonly expiresAt: string }
  /** `by`: who calls, an application or a session; another's transaction is not found (rules.md §9). */
  | { readonly kind: 'commit' | 'rollback'; readonly id: string; readonly by: string; readonly now: Date }
  | { readonly kind: 'expire'; readonly id: string; readonly now: Date };

export function isOver(state: TransactionState, now: Date): boolean {
  return state.kind === 'open' && Date.parse(state.expiresAt) <= now.getTime();
}

/** The transaction when it is the caller's and open. @throws NotFoundError, ConflictError */
export function requireOpen(state: TransactionState, by: string, now: Date): void {
  if (state.kind === 'absent' || state.createdBy !== by) throw new NotFoundError('The transaction');
  if (state.kind !== 'open' || isOver(state, now)) {
    throw new ConflictError('transaction_not_open', 'The transaction is not open.');
  }
}

function decide(state: TransactionState, command: TransactionCommand): readonly Fact[] {
  const identity = { transaction_id: command.id };
  switch (command.kind) {
    case 'open':
      return state.kind === 'absent'
        ? [fact(TransactionOpened, { ...identity, expires_at: command.expiresAt })]
        : [];
    case 'commit':
      requireOpen(state, command.by, command.now);
      return [fact(TransactionCommitted, identity)];
    case 'rollback':
      requireOpen(state, command.by, command.now);
      return [fact(TransactionRolledBack, identity)];
    case 'expire':
      return isOver(state, command.now) ? [fact(TransactionExpired, identity)] : [];
  }
}

export const transactionDecider: Decider<TransactionState, TransactionCommand> = {
  initialState,
  evolve,
  decide,
};
