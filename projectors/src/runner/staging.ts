import { eventRegistry, type EventMetadata, type JsonObject } from '@token-vault/contracts';
import type { RecordedEvent } from '@token-vault/event-store';
import type { Occurrence, Projection, Table } from '../projection.ts';
import type { BatchFold } from './fold.ts';
import { statement, type Statement } from './statements.ts';

/** Events of open transactions wait here, and what came to an end is remembered, in each projection's own schema. */
export const stagingTables: readonly Table[] = [
  {
    name: 'staged_event',
    columns: {
      transaction_id: 'uuid not null',
      position: 'bigint not null',
      // Text: an event must come back as it was, whatever it holds.
      event: 'text not null',
    },
    primaryKey: ['transaction_id', 'position'],
    addressedBy: ['transaction_id'],
  },
  {
    name: 'closed_transaction',
    columns: { id: 'uuid not null', closed_at: 'timestamptz not null' },
    primaryKey: ['id'],
    indexes: [{ on: '(closed_at)' }],
  },
];

/** What an event needs to be applied later. */
interface StagedEvent {
  readonly id: string;
  readonly type: string;
  readonly version: number;
  readonly data: JsonObject;
  readonly metadata: EventMetadata;
}

/** What the database knows of the transactions of a batch: staged events of those that end, and which have ended. */
export interface StagedState {
  readonly events: Map<string, StagedEvent[]>;
  readonly closed: Set<string>;
}

export const nothingStaged = (): StagedState => ({ events: new Map(), closed: new Set() });

type Boundary = 'commit' | 'drop';
const boundaries: Readonly<Record<string, Boundary>> = {
  TransactionCommitted: 'commit',
  TransactionRolledBack: 'drop',
  TransactionExpired: 'drop',
};
const isOfTransaction = (type: string): boolean => type === 'TransactionOpened' || type in boundaries;

const enlistedIn = (event: RecordedEvent): string | undefined =>
  isOfTransaction(event.type) ? undefined : event.metadata.transaction_id;

export interface TouchedTransactions {
  /** Those that an event is enlisted in: have they ended? */
  readonly enlisting: readonly string[];
  /** Those that end: what was staged before? */
  readonly ending: readonly string[];
}

/** What must be looked up before these events can be applied; undefined when nothing must. */
export function transactionsOf(events: readonly RecordedEvent[]): TouchedTransactions | undefined {
  const enlisting = new Set<string>();
  const ending = new Set<string>();
  for (const event of events) {
    const id = enlistedIn(event);
    if (id !== undefined) enlisting.add(id);
    else if (event.type in boundaries) ending.add(event.data['transaction_id'] as string);
  }
  if (enlisting.size + ending.size === 0) return undefined;
  return { enlisting: [...enlisting], ending: [...ending] };
}

export const stagedEventsOf = (ids: readonly string[]): Statement =>
  statement(
    `select transaction_id, event from staged_event where transaction_id = any($1::uuid[])
      order by transaction_id, position`,
    [ids],
  );
export const closedAmong = (ids: readonly string[]): Statement =>
  statement('select id from closed_transaction where id = any($1::uuid[])', [ids]);

export function readState(
  staged: readonly { transaction_id: string; event: string }[],
  closed: readonly { id: string }[],
): StagedState {
  const events = new Map<string, StagedEvent[]>();
  for (const { transaction_id: id, event } of staged) {
    const list = events.get(id) ?? [];
    // It may have been staged by an older release.
    const stored = JSON.parse(event) as StagedEvent;
    list.push({ ...stored, ...eventRegistry.upcast(stored.type, stored.version, stored.data) });
    events.set(id, list);
  }
  return { events, closed: new Set(closed.map(({ id }) => id)) };
}

type Handler = (event: Occurrence) => ReturnType<NonNullable<Projection['on']['TenantCreated']>>;

/**
 * Feeds events to a projection's handlers, holding back those enlisted in a transaction: they take effect in order at
 * the position of its commit, never after a rollback or expiry, and not at all when they come after the end.
 */
export class Applier {
  readonly #projection: Projection;
  readonly #fold: BatchFold;
  readonly #state: StagedState;

  constructor(projection: Projection, fold: BatchFold, state: StagedState) {
    this.#projection = projection;
    this.#fold = fold;
    this.#state = state;
  }

  apply(event: RecordedEvent): void {
    const transactionId = enlistedIn(event);
    if (transactionId !== undefined) this.#stage(transactionId, event);
    else if (event.type in boundaries) this.#close(event);
    else this.#handle(event, event.position, 0);
  }

  #handle(event: StagedEvent, position: string, ordinal: number): number {
    const { on } = this.#projection;
    if (!Object.hasOwn(on, event.type)) return 0;
    const handler = on[event.type as keyof typeof on] as Handler;
    const { id, type, data, metadata } = event;
    const ops = handler({ id, type, data, metadata, position, ordinal } as unknown as Occurrence);
    for (const op of ops) this.#fold.add(op);
    return ops.length;
  }

  #stage(transactionId: string, event: RecordedEvent): void {
    if (!Object.hasOwn(this.#projection.on, event.type) || this.#state.closed.has(transactionId)) return;
    const { id, type, version, data, metadata, position } = event;
    const staged = { id, type, version, data, metadata };
    const list = this.#state.events.get(transactionId) ?? [];
    list.push(staged);
    this.#state.events.set(transactionId, list);
    this.#fold.add({
      kind: 'insert',
      table: 'staged_event',
      row: { transaction_id: transactionId, position, event: JSON.stringify(staged) },
    });
  }

  #close(event: RecordedEvent): void {
    const transactionId = event.data['transaction_id'] as string;
    const staged = this.#state.events.get(transactionId) ?? [];
    let ordinal = 0;
    if (boundaries[event.type] === 'commit') {
      for (const each of staged) ordinal += this.#handle(each, event.position, ordinal);
    }
    this.#handle(event, event.position, ordinal);
    this.#remember(transactionId, event.metadata.occurred_at, staged.length > 0);
  }

  #remember(transactionId: string, closedAt: string, hasStaged: boolean): void {
    if (hasStaged) {
      this.#state.events.delete(transactionId);
      this.#fold.add({ kind: 'delete', table: 'staged_event', key: { transaction_id: transactionId } });
    }
    if (this.#state.closed.has(transactionId)) return;
    this.#state.closed.add(transactionId);
    this.#fold.add({
      kind: 'insert',
      table: 'closed_transaction',
      row: { id: transactionId, closed_at: closedAt },
    });
  }
}

/**
 * A transaction lives an hour (decisions.md §9) and a command seconds, so no enlisted event comes a week after the
 * end. Measured by the events' own time: the result does not depend on when the log is replayed.
 */
export const forgetClosed = (occurredAt: string): Statement =>
  statement(`delete from closed_transaction where closed_at < $1::timestamptz - interval '7 days'`, [
    occurredAt,
  ]);
