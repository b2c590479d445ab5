import { streams } from '@token-vault/contracts';
import {
  comparePositions,
  noRevision,
  type EventStore,
  type Position,
  type RecordedEvent,
} from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/service-kit';
import type { TransactionOutcomes } from '../transactions/outcomes.ts';
import type { TransactionState } from '../transactions/state.ts';
import { decidedKeyIds } from './decider.ts';
import { evolve, initialState, type TokenState } from './state.ts';

/** A token as one caller may act on it. */
export interface TokenHistory {
  /** Committed, and what the given transaction has done itself. */
  readonly state: TokenState;
  readonly revision: number;
  /** Of the last event; undefined when there is none. */
  readonly position: Position | undefined;
  /** Another transaction that is open and has touched the token: nobody else may write (rules.md §9). */
  readonly lockedBy: string | undefined;
  /** An open transaction, the given one included, has touched the token. */
  readonly isPending: boolean;
  /** Revision of the last event that counts without the open transactions; `noRevision` when none does. */
  readonly base: number;
  /** Data keys whose destruction the last committed change has decided: carried out by now, unless its writer was cut off. */
  readonly decidedKeyIds: readonly string[];
}

function counts(event: RecordedEvent, transaction: TransactionState): boolean {
  return transaction.kind === 'committed' && comparePositions(event.position, transaction.position) < 0;
}

/** The reader and the transaction of its request. A repeated request is answered before the owner of the transaction is checked. */
type Reader = Pick<RequestContext, 'principal' | 'transactionId'>;

/** Uncommitted events count only for the caller that opened the transaction (rules.md §9). */
const isOwn = (id: string | undefined, { createdBy }: { createdBy: string }, reader?: Reader): boolean =>
  reader !== undefined && id === reader.transactionId && createdBy === reader.principal.actor.id;

/** Each transaction is looked at once a reading: all its events count, or none does. */
function createLookup(outcomes: Pick<TransactionOutcomes, 'stateOf'>, tenantId: string) {
  const seen = new Map<string, TransactionState>();
  return async (transactionId: string): Promise<TransactionState> => {
    const state = seen.get(transactionId) ?? (await outcomes.stateOf(tenantId, transactionId));
    seen.set(transactionId, state);
    return state;
  };
}

/** Events after which everything that is known of the token stands in the event itself. */
function isWhole(event: RecordedEvent): boolean {
  return event.type === 'TokenUpdated' ? event.data.created_at !== undefined : wholes.has(event.type);
}
const wholes = new Set(['TokenCreated', 'TokenDeleted', 'TokenExpired']);

/** Most is known from the newest event; a history of an older release, or of many small ones, is read in larger pieces. */
const pieceSizes = [1, 1, 2, 16, 128];

/** What has been read so far, newest first. */
interface Reading {
  last: RecordedEvent | undefined;
  lockedBy: string | undefined;
  isPending: boolean;
  base: number;
  decidedKeyIds: readonly string[];
  /** Events that count for the caller, newest first. */
  readonly counting: RecordedEvent[];
}

/**
 * Reads a token's stream, from its end back to the last event that says everything. An enlisted event counts when its transaction
 * was committed after it; while the transaction is open only the transaction itself sees it, and everybody else meets a lock.
 */
export async function readTokenHistory(
  store: Pick<EventStore, 'readStream'>,
  outcomes: Pick<TransactionOutcomes, 'stateOf'>,
  tenantId: string,
  tokenId: string,
  reader?: Reader,
): Promise<TokenHistory> {
  const stream = streams.token(tenantId, tokenId);
  const transactionOf = createLookup(outcomes, tenantId);
  const reading: Reading = {
    last: undefined,
    lockedBy: undefined,
    isPending: false,
    base: noRevision,
    decidedKeyIds: [],
    counting: [],
  };
  let from: number | undefined;
  for (let piece = 0; from !== noRevision; piece += 1) {
    const maxCount = pieceSizes[Math.min(piece, pieceSizes.length - 1)] ?? 1;
    const range = { backwards: true, maxCount, ...(from === undefined ? {} : { from }) };
    from = noRevision;
    for await (const event of store.readStream(stream, range)) {
      reading.last ??= event;
      from = await look(reading, event, transactionOf, reader);
      if (from !== event.revision - 1) break;
    }
  }
  const { last, lockedBy, isPending, base, decidedKeyIds, counting } = reading;
  const state = counting.reduceRight(evolve, initialState);
  const { revision, position } = last ?? { revision: noRevision, position: undefined };
  return { state, revision, position, lockedBy, isPending, base, decidedKeyIds };
}

/** Takes an event into account; gives the revision to go on with, `noRevision` when enough is known. */
async function look(
  reading: Reading,
  event: RecordedEvent,
  transactionOf: ReturnType<typeof createLookup>,
  reader: Reader | undefined,
): Promise<number> {
  const { transaction_id: enlistedIn, counts_after: countsAfter } = event.metadata;
  const transaction = enlistedIn === undefined ? undefined : await transactionOf(enlistedIn);
  const before = event.revision - 1;
  const next = countsAfter ?? before;
  if (transaction?.kind === 'open') {
    reading.isPending = true;
    if (isOwn(enlistedIn, transaction, reader)) count(reading, event);
    else reading.lockedBy ??= enlistedIn;
    return next;
  }
  if (transaction?.kind === 'dropped') return next;
  // An earlier event of the transaction may count although this one came too late.
  if (transaction && !counts(event, transaction)) return before;
  if (reading.base === noRevision) {
    reading.base = event.revision;
    reading.decidedKeyIds = decidedKeyIds(event);
  }
  count(reading, event);
  return isStateOpen(reading) ? before : noRevision;
}

function count(reading: Reading, event: RecordedEvent): void {
  if (isStateOpen(reading)) reading.counting.push(event);
}

/** Whether what came before the events read so far still tells something. */
const isStateOpen = ({ counting }: Reading): boolean => {
  const oldest = counting.at(-1);
  return oldest === undefined || !isWhole(oldest);
};
