import { currentEvent, type NewEvent, type VaultEvent, type VaultEventType } from '@token-vault/contracts';
import type { RecordedEvent } from '@token-vault/event-store';
import { statement, type Statement } from './statements.ts';

/** The event that is stored to be applied later. */
export type StagedEvent = VaultEvent;

/** The most entries kept in memory between batches. Beyond them the database is asked again. */
const mostRemembered = { transactions: 10_000, events: 2_000, characters: 16_777_216 };

/**
 * The known transactions. Those seen since their opening are known completely, others as far as they were looked up.
 */
export class Transactions {
  readonly events = new Map<string, StagedEvent[]>();
  readonly closed = new Set<string>();
  readonly #seenOpening = new Set<string>();
  /** Of the events that were remembered since the last `clear`. */
  #characters = 0;

  /** The transactions that must be looked up before these events can be applied. Undefined when there are none. */
  unknownOf(events: readonly RecordedEvent[]): TouchedTransactions | undefined {
    const enlisting = new Set<string>();
    const committing = new Set<string>();
    const dropping = new Set<string>();
    for (const event of events) {
      const id = enlistedIn(event);
      if (id !== undefined) enlisting.add(id);
      else if (isEnding(event)) (isCommit(event) ? committing : dropping).add(event.data.transaction_id);
      else if (event.type === opening) this.#seenOpening.add(event.data.transaction_id);
    }
    const isUnknown = (id: string): boolean => !this.#seenOpening.has(id);
    const unknown = {
      enlisting: [...enlisting].filter(isUnknown),
      committing: [...committing].filter(isUnknown),
      dropping: [...dropping].filter(isUnknown),
    };
    return Object.values(unknown).every((ids) => ids.length === 0) ? undefined : unknown;
  }

  learn(
    staged: readonly { transaction_id: string; event: string }[],
    closed: readonly { id: string }[],
  ): void {
    for (const { transaction_id: id, event } of staged) {
      // An older release may have staged the event.
      this.stage(id, currentEvent(JSON.parse(event) as NewEvent), event.length);
    }
    for (const { id } of closed) this.closed.add(id);
  }

  /** @param characters the length of the event as text */
  stage(id: string, event: StagedEvent, characters: number): void {
    this.#characters += characters;
    const list = this.events.get(id);
    if (list) list.push(event);
    else this.events.set(id, [event]);
  }

  /** Called after a batch: the results of its look-ups may be incomplete for the next one. */
  forget(looked: TouchedTransactions | undefined): void {
    const ids = looked ? [...looked.enlisting, ...looked.committing, ...looked.dropping] : [];
    for (const id of ids) {
      this.events.delete(id);
      this.closed.delete(id);
    }
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

export interface TouchedTransactions {
  /** Transactions that an event is enlisted in. The look-up tells whether they ended. */
  readonly enlisting: readonly string[];
  /** Transactions that are committed. The look-up gives their staged events. */
  readonly committing: readonly string[];
  /** Transactions that are dropped. Their staged events are not read. */
  readonly dropping: readonly string[];
}

export const hasEnding = (events: readonly RecordedEvent[]): boolean => events.some(isEnding);

export const stagedEventsOf = (ids: readonly string[]): Statement =>
  statement(
    `select transaction_id, event from staged_event where transaction_id = any($1::uuid[])
      order by transaction_id, position`,
    [ids],
  );
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
