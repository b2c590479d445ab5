import { streams } from '@token-vault/contracts';
import { keyIdOf, isSealedValue } from '@token-vault/crypto';
import { comparePositions, noRevision, type EventStore, type RecordedEvent } from '@token-vault/event-store';
import type { TransactionOutcomes } from '../transactions/outcomes.ts';
import type { TransactionState } from '../transactions/state.ts';
import { evolve, initialState, type TokenState } from './state.ts';

/** A token as one caller may act on it. */
export interface TokenHistory {
  /** Committed, and what the given transaction has done itself. */
  readonly state: TokenState;
  readonly revision: number;
  /** Another transaction that is open and has touched the token: nobody else may write (decisions.md §9). */
  readonly lockedBy: string | undefined;
  /** Every data key that any event of the stream names, whether it counted or not. */
  readonly keyIds: ReadonlySet<string>;
}

function keyIdsIn(event: RecordedEvent): string[] {
  const { data, cvc, key_ids: named } = event.data;
  const sealed = [data, cvc].filter(isSealedValue).map(keyIdOf);
  return Array.isArray(named) ? [...sealed, ...named.filter((id) => typeof id === 'string')] : sealed;
}

function counts(event: RecordedEvent, transaction: TransactionState): boolean {
  return transaction.kind === 'committed' && comparePositions(event.position, transaction.position) < 0;
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
  let state = initialState;
  let revision = noRevision;
  let lockedBy: string | undefined;
  const keyIds = new Set<string>();
  for await (const event of store.readStream(streams.token(tenantId, tokenId))) {
    revision = event.revision;
    for (const id of keyIdsIn(event)) keyIds.add(id);
    const enlistedIn = event.metadata.transaction_id;
    if (enlistedIn === undefined || enlistedIn === ownTransactionId) {
      state = evolve(state, event);
      continue;
    }
    const transaction = await outcomes.stateOf(tenantId, enlistedIn);
    if (counts(event, transaction)) state = evolve(state, event);
    else if (transaction.kind === 'open') lockedBy = enlistedIn;
  }
  return { state, revision, lockedBy, keyIds };
}
