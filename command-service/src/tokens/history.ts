import { streams } from '@token-vault/contracts';
import { keyIdOf, isSealedValue } from '@token-vault/crypto';
import {
  comparePositions,
  noRevision,
  type EventStore,
  type Position,
  type RecordedEvent,
} from '@token-vault/event-store';
import type { TransactionOutcomes } from '../transactions/outcomes.ts';
import type { TransactionState } from '../transactions/state.ts';
import { evolve, initialState, type TokenState } from './state.ts';

/** A token as one caller may act on it. */
export interface TokenHistory {
  /** Committed, and what the given transaction has done itself. */
  readonly state: TokenState;
  readonly revision: number;
  /** Of the last event; undefined when there is none. */
  readonly position: Position | undefined;
  /** Another transaction that is open and has touched the token: nobody else may write (decisions.md §9). */
  readonly lockedBy: string | undefined;
  /** An open transaction, the given one included, has touched the token. */
  readonly isPending: boolean;
  /** Every data key that any event of the stream names, whether it counted or not. */
  readonly keyIds: ReadonlySet<string>;
  /** Those of them that what is pending would bring. */
  readonly pendingKeyIds: ReadonlySet<string>;
}

function keyIdsIn(event: RecordedEvent): string[] {
  const { data, cvc, key_ids: named } = event.data;
  const sealed = [data, cvc].filter(isSealedValue).map(keyIdOf);
  return Array.isArray(named) ? [...sealed, ...named.filter((id) => typeof id === 'string')] : sealed;
}

function counts(event: RecordedEvent, transaction: TransactionState): boolean {
  return transaction.kind === 'committed' && comparePositions(event.position, transaction.position) < 0;
}

/** Each transaction is looked at once a reading: all its events count, or none does. */
function createLookup(outcomes: TransactionOutcomes, tenantId: string) {
  const seen = new Map<string, TransactionState>();
  return async (transactionId: string): Promise<TransactionState> => {
    const state = seen.get(transactionId) ?? (await outcomes.stateOf(tenantId, transactionId));
    seen.set(transactionId, state);
    return state;
  };
}

/**
 * Reads a token's stream. An enlisted event counts when its transaction was committed after it; while the transaction is
 * open only the transaction itself sees it, and everybody else meets a lock.
 */
export async function readTokenHistory(
  store: EventStore,
  outcomes: TransactionOutcomes,
  tenantId: string,
  tokenId: string,
  ownTransactionId?: string,
): Promise<TokenHistory> {
  const transactionOf = createLookup(outcomes, tenantId);
  let state = initialState;
  let last: RecordedEvent | undefined;
  let lockedBy: string | undefined;
  let isPending = false;
  const keyIds = new Set<string>();
  const pendingKeyIds = new Set<string>();
  for await (const event of store.readStream(streams.token(tenantId, tokenId))) {
    last = event;
    const named = keyIdsIn(event);
    for (const id of named) keyIds.add(id);
    const enlistedIn = event.metadata.transaction_id;
    const transaction = enlistedIn === undefined ? undefined : await transactionOf(enlistedIn);
    if (transaction?.kind === 'open') {
      isPending = true;
      for (const id of named) pendingKeyIds.add(id);
      if (enlistedIn === ownTransactionId) state = evolve(state, event);
      else lockedBy = enlistedIn;
    } else if (transaction === undefined || counts(event, transaction)) {
      state = evolve(state, event);
    }
  }
  const { revision, position } = last ?? { revision: noRevision, position: undefined };
  return { state, revision, position, lockedBy, isPending, keyIds, pendingKeyIds };
}
