import {
  ConflictError,
  ForbiddenError,
  NotFoundError,
  TransactionCommitted,
  TransactionExpired,
  TransactionOpened,
  TransactionRolledBack,
} from '@token-vault/contracts';
import { fact, type Decider, type Fact } from '../aggregates/decider.ts';
import { evolve, initialState, type TransactionState } from './state.ts';

export type TransactionCommand =
  | {
      readonly kind: 'open';
      readonly id: string;
      readonly expiresAt: string;
      /** SHA-256 (hex) of the key of the caller, whose transaction it is. Undefined for the work of one request. */
      readonly keyHash?: string | undefined;
    }
  /** `by`: who calls, an application or a session; another's transaction is not found (rules.md §9). */
  | { readonly kind: 'rollback'; readonly id: string; readonly by: string; readonly now: Date }
  /** `rights`: those of the caller at this moment (`rightsOf`). */
  | {
      readonly kind: 'commit';
      readonly id: string;
      readonly by: string;
      readonly rights: string;
      readonly now: Date;
    }
  | { readonly kind: 'expire'; readonly id: string; readonly now: Date }
  /** The caller that opened it was deleted or has another key. */
  | { readonly kind: 'abandon'; readonly id: string };

export function isOver(state: TransactionState, now: Date): boolean {
  return state.kind === 'open' && Date.parse(state.expiresAt) <= now.getTime();
}

export const notOpen = (): ConflictError =>
  new ConflictError('transaction_not_open', 'The transaction is not open.');

/** The transaction, when the caller owns it and it is open. @throws NotFoundError, ConflictError */
export function requireOpen(state: TransactionState, by: string, now: Date): void {
  if (state.kind === 'absent' || state.createdBy !== by) throw new NotFoundError('The transaction');
  if (state.kind !== 'open' || isOver(state, now)) throw notOpen();
}

/**
 * A token that has expired stays expired: a write that was enlisted before does not bring it back (rules.md §3).
 * @throws ConflictError
 */
export function refuseExpiredTokens(state: TransactionState, now: Date): void {
  if (state.kind !== 'open' || state.firstExpiry.ms > now.getTime()) return;
  const detail = 'A token of the transaction has expired. Roll the transaction back and begin again.';
  throw new ConflictError('transaction_token_expired', detail);
}

/**
 * The writes of a transaction take effect at its commit, so the caller must still have the rights by which they were decided.
 * @throws ForbiddenError
 */
function refuseChangedRights(state: TransactionState, id: string, rights: string): void {
  if (state.kind !== 'open' || [...state.rights].every((each) => each === rights)) return;
  const detail =
    'The rights of the caller have changed since it wrote in the transaction. Roll the transaction back and begin again.';
  throw new ForbiddenError(detail, { type: 'transaction', id });
}

const opening = ({ id, expiresAt, keyHash }: Extract<TransactionCommand, { kind: 'open' }>) => ({
  transaction_id: id,
  expires_at: expiresAt,
  ...(keyHash === undefined ? {} : { key_hash: keyHash }),
});

function decide(state: TransactionState, command: TransactionCommand): readonly Fact[] {
  const identity = { transaction_id: command.id };
  switch (command.kind) {
    case 'open':
      return state.kind === 'absent' ? [fact(TransactionOpened, opening(command))] : [];
    case 'commit':
      requireOpen(state, command.by, command.now);
      refuseChangedRights(state, command.id, command.rights);
      refuseExpiredTokens(state, command.now);
      return [fact(TransactionCommitted, identity)];
    case 'rollback':
      requireOpen(state, command.by, command.now);
      return [fact(TransactionRolledBack, identity)];
    case 'abandon':
      return state.kind === 'open' ? [fact(TransactionRolledBack, identity)] : [];
    case 'expire':
      return isOver(state, command.now) ? [fact(TransactionExpired, identity)] : [];
  }
}

export const transactionDecider: Decider<TransactionState, TransactionCommand> = {
  initialState,
  evolve,
  decide,
};
