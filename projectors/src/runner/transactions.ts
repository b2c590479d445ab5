import { currentEvent, type NewEvent, type VaultEvent, type VaultEventType } from '@token-vault/contracts';
import type { RecordedEvent } from '@token-vault/event-store';
import { statement, type Statement } from './statements.ts';

/** The event that is stored to be applied later. */
export type StagedEvent = VaultEvent;

/** The most entries kept in memory between batches. Beyond them the database is asked again. */
const mostRemembered = { transactions: 10_000, events: 2_000, characters: 16_777_216 };

/** The transactions seen since their opening, with their staged events, and the others that were looked up and have ended. */
export class Transactions {
  readonly events = new Map<string, StagedEvent[]>();
  readonly closed = new Set<string>();
  readonly #seenOpening = new Set<string>();
  /** Of the events that were remembered since the last `clear`. */
  #characters = 0;

  /** The transactions of these events of which must be looked up whether they ended. */
  unknownOf(events: readonly RecordedEvent[]): readonly string[] {
    const touched = new Set<string>();
    for (const event of events) {
      const id = enlistedIn(event);
      if (id !== undefined) touched.add(id);
      else if (isEnding(event)) touched.add(event.data.transaction_id);
      else if (event.type === opening) this.#seenOpening.add(event.data.transaction_id);
    }
    return [...touched].filter((id) => !this.isKnown(id));
  }

  /** Whether all staged events of the transaction are here. */
  isKnown(id: string): boolean {
    return this.#seenOpening.has(id);
  }

  /** @param characters the length of the event as text */
  stage(id: string, event: StagedEvent, characters: number): void {
    if (!this.isKnown(id)) return;
    this.#characters += characters;
    const list = this.events.get(id);
    if (list) list.push(event);
    else this.events.set(id, [event]);
  }

  /** Called after a batch. @param looked the ids that were looked up: the results may be incomplete for the next batch */
  forget(looked: readonly string[]): void {
    for (const id of looked) this.closed.delete(id);
    let events = 0;
    for (const list of this.events.values()) events += list.length;
    const { transactions, events: mostEvents, characters } = mostRemembered;
    if (events === 0) this.#characters = 0;
    const isSmall = events <= mostEvents && this.#characters <= characters;
    if (isSmall && this.#seenOpening.size <= transactions) return;
    this.#characters = 0;
    this.events.clear();
    this.closed.clear();
    this.#seenOpening.clear();
  }
}

type Boundary = 'commit' | 'drop';
const boundaries = {
  TransactionCommitted: 'commit',
  TransactionRolledBack: 'drop',
  TransactionExpired: 'drop',
} satisfies Partial<Record<VaultEventType, Boundary>>;
export type EndingEvent = RecordedEvent<keyof typeof boundaries>;
export const isEnding = (event: RecordedEvent): event is EndingEvent => event.type in boundaries;
export const isCommit = ({ type }: EndingEvent): boolean => boundaries[type] === 'commit';
const opening = 'TransactionOpened';
/** The vault opens a transaction with the first event of its stream. Only that opening counts, as it does for the command side. */
export const isLaterOpening = ({ type, revision }: RecordedEvent): boolean =>
  type === opening && revision > 0;
const isOfTransaction = (type: string): boolean => type === opening || type in boundaries;

export const enlistedIn = (event: RecordedEvent): string | undefined =>
  isOfTransaction(event.type) ? undefined : event.metadata.transaction_id;

/** When the latest of the transactions that end here ended. Only ends count, so that the size of batches does not change which rows stay. */
export const latestEndOf = (events: readonly RecordedEvent[]): string | undefined =>
  events
    .filter(isEnding)
    .map(({ metadata }) => metadata.occurred_at)
    .sort()
    .at(-1);

export interface StagedRow {
  readonly position: string;
  readonly event: string;
}

/** The first staged events of a transaction after a position: 1,000, while those before one have less than 4 MiB. */
export const stagedPage = (id: string, after: string): Statement =>
  statement(
    `select position, event from (
        select position, event, sum(octet_length(event)) over (order by position) - octet_length(event) as bytes_before
        from staged_event where transaction_id = $1 and position > $2 order by position limit 1000
      ) page where bytes_before < 4194304 order by position`,
    [id, after],
  );

/** An older release may have staged the event. */
export const stagedEventOf = ({ event }: StagedRow): StagedEvent =>
  currentEvent(JSON.parse(event) as NewEvent);

export const closedAmong = (ids: readonly string[]): Statement =>
  statement('select id from closed_transaction where id = any($1::uuid[])', [ids]);

/**
 * A transaction lives an hour (rules.md §9) and a command seconds, so no enlisted event comes a week after the end.
 * The age is measured by the times of the events, so that it does not depend on when the log is replayed.
 */
export const forgetClosed = (occurredAt: string): Statement =>
  statement(`delete from closed_transaction where closed_at < $1::timestamptz - interval '7 days'`, [
    occurredAt,
  ]);
