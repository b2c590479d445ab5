import { refuseAltered, streams } from '@token-vault/contracts';
import {
  comparePositions,
  noRevision,
  readEntity,
  type EventStore,
  type Position,
  type RecordedEvent,
} from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/operations';
import type { TransactionOutcomes } from '../transactions/outcomes.ts';
import type { TransactionState } from '../transactions/state.ts';
import { decidedKeyIds } from './decider.ts';
import { evolve, initialState, type TokenState } from './state.ts';

/** The history of a token as one caller sees it. */
export interface TokenHistory {
  /** The committed state, with the changes of the caller's own transaction. */
  readonly state: TokenState;
  readonly revision: number;
  /** The position of the last event. Undefined when there is none. */
  readonly position: Position | undefined;
  /** The id of another open transaction that wrote to the token. Other callers may not write (rules.md §9). */
  readonly lockedBy: string | undefined;
  /** An open transaction, the caller's included, wrote to the token. */
  readonly isPending: boolean;
  /** The revision of the last event that counts without the open transactions. `noRevision` when none does. */
  readonly base: number;
  /** RFC 3339. The time of that event, or of the commit of its transaction. Undefined when there is none. */
  readonly baseSince: string | undefined;
  /**
   * The data keys whose destruction the last committed change has decided. They are destroyed already, unless the
   * writer was interrupted.
   */
  readonly decidedKeyIds: readonly string[];
}

function counts(event: RecordedEvent, transaction: TransactionState): boolean {
  return transaction.kind === 'committed' && comparePositions(event.position, transaction.position) < 0;
}

const countsSince = ({ metadata }: RecordedEvent, transaction: TransactionState | undefined): string =>
  transaction?.kind === 'committed' ? transaction.committedAt : metadata.occurred_at;

/** The log, and how its transactions ended. */
export interface HistorySource {
  readonly store: Pick<EventStore, 'readStream'>;
  readonly outcomes: Pick<TransactionOutcomes, 'endIfOver'>;
  /** The newest revision to read. Undefined for the whole stream. */
  readonly newest?: number | undefined;
}

/**
 * The caller and the transaction of the request. A repeated request is answered before the owner of the transaction
 * is checked.
 */
type Reader = Pick<RequestContext, 'principal' | 'transactionId'>;

/** Uncommitted events count only for the caller that opened the transaction (rules.md §9). */
const isOwn = (id: string | undefined, { createdBy }: { createdBy: string }, reader?: Reader): boolean =>
  reader !== undefined && id === reader.transactionId && createdBy === reader.principal.actor.id;

/** Each transaction is read once for a reading of a stream, so that either all of its events count or none. */
function createLookup(outcomes: Pick<TransactionOutcomes, 'endIfOver'>, tenantId: string) {
  const seen = new Map<string, TransactionState>();
  return async (transactionId: string): Promise<TransactionState> => {
    const state = seen.get(transactionId) ?? (await outcomes.endIfOver(tenantId, transactionId));
    // A transaction is opened before a token is written in it. An attacker who names one that never was would hide the event.
    if (state.kind === 'absent') refuseAltered('token', tenantId);
    seen.set(transactionId, state);
    return state;
  };
}

/** Whether the event holds the whole state of the token. */
function isWhole(event: RecordedEvent): boolean {
  return event.type === 'TokenUpdated' ? event.data.created_at !== undefined : wholes.has(event.type);
}
const wholes = new Set(['TokenCreated', 'TokenDeleted', 'TokenExpired']);

/**
 * Usually the newest event is enough. A history of an older release, or of many small events, is read in larger
 * pieces.
 */
const pieceSizes = [1, 1, 2, 16, 128];

/** The events read so far, newest first. */
interface Reading {
  last: RecordedEvent | undefined;
  lockedBy: string | undefined;
  isPending: boolean;
  base: number;
  baseSince: string | undefined;
  decidedKeyIds: readonly string[];
  /** Events that count for the caller, newest first. */
  readonly counting: RecordedEvent[];
}

/**
 * Reads a token's stream backwards, to the last event that holds the whole state. An enlisted event counts when its
 * transaction was committed after it. While the transaction is open, only its own caller sees the event, and other
 * callers find the token locked. @throws AlteredRecordError
 */
export async function readTokenHistory(
  { store, outcomes, newest }: HistorySource,
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
    baseSince: undefined,
    decidedKeyIds: [],
    counting: [],
  };
  let from = newest;
  for (let piece = 0; from !== noRevision; piece += 1) {
    const maxCount = pieceSizes[Math.min(piece, pieceSizes.length - 1)] ?? 1;
    const range = { backwards: true, maxCount, ...(from === undefined ? {} : { from }) };
    from = noRevision;
    for await (const event of readEntity(store, stream, range)) {
      reading.last ??= event;
      from = await look(reading, event, transactionOf, reader);
      if (from !== event.revision - 1) break;
    }
  }
  const { last, counting, ...found } = reading;
  const state = counting.reduceRight(evolve, initialState);
  const { revision, position } = last ?? { revision: noRevision, position: undefined };
  return { ...found, state, revision, position };
}

/** Handles one event. Gives the revision to continue with, `noRevision` when the state is complete. */
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
  // This event came too late for its transaction. An earlier event of the same transaction may still count.
  if (transaction && !counts(event, transaction)) return before;
  if (reading.base === noRevision) {
    reading.base = event.revision;
    reading.baseSince = countsSince(event, transaction);
    reading.decidedKeyIds = decidedKeyIds(event);
  }
  count(reading, event);
  return isStateOpen(reading) ? before : noRevision;
}

function count(reading: Reading, event: RecordedEvent): void {
  if (isStateOpen(reading)) reading.counting.push(event);
}

/** Whether earlier events can still change the state. */
const isStateOpen = ({ counting }: Reading): boolean => {
  const oldest = counting.at(-1);
  return oldest === undefined || !isWhole(oldest);
};
