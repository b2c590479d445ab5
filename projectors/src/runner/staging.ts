import { ownStreamOf } from '@token-vault/contracts';
import type { RecordedEvent } from '@token-vault/event-store';
import type { Occurrence, Projection, SqlOp, Table } from '../projection.ts';
import type { BatchFold } from './fold.ts';
import {
  enlistedIn,
  isCommit,
  isEnding,
  isLaterOpening,
  type EndingEvent,
  type StagedEvent,
  type Transactions,
} from './transactions.ts';

/**
 * Tables in each projection's own schema: the staged events of open transactions, and the transactions that ended.
 */
export const stagingTables: readonly Table[] = [
  {
    name: 'staged_event',
    columns: {
      transaction_id: 'uuid not null',
      position: 'bigint not null',
      // Text, because the event must come back unchanged, whatever its content.
      event: 'text not null',
    },
    primaryKey: ['transaction_id', 'position'],
    addressedBy: ['transaction_id'],
    sealedColumns: ['event'],
  },
  {
    name: 'closed_transaction',
    columns: { id: 'uuid not null', closed_at: 'timestamptz not null' },
    primaryKey: ['id'],
    indexes: [{ on: '(closed_at)' }],
  },
];

/** A handler is found by the type of its event. The compiler cannot follow this. */
type Handler = (
  event: Omit<Occurrence, 'type' | 'data'> & Pick<StagedEvent, 'type' | 'data'>,
) => readonly SqlOp[];

/**
 * Gives events to a projection's handlers. Events enlisted in a transaction are held back: they take effect in order
 * at the position of the commit. They never take effect after a rollback or expiry, or when they come after the end
 * of the transaction. Nor do events that are in the stream of another entity, and second openings (ADR 20).
 */
export class Applier {
  readonly #projection: Projection;
  readonly #fold: BatchFold;
  readonly #transactions: Transactions;

  constructor(projection: Projection, fold: BatchFold, transactions: Transactions) {
    this.#projection = projection;
    this.#fold = fold;
    this.#transactions = transactions;
  }

  apply(event: RecordedEvent): void {
    if (this.#isIgnored(event)) return;
    const transactionId = enlistedIn(event);
    if (transactionId !== undefined) this.#stage(transactionId, event);
    else if (isEnding(event)) this.#close(event);
    else this.#handle(event, event.position, 0);
  }

  /** Whether the event commits staged events that must be read from the database: then call `applyStaged` for them, and `end`. */
  isCommitToRead(event: RecordedEvent): event is EndingEvent {
    if (!isEnding(event) || !isCommit(event) || this.#isIgnored(event)) return false;
    return !this.#transactions.isKnown(event.data.transaction_id);
  }

  /** @param ordinal the number of changes at the position of the commit so far. @returns their number after these events */
  applyStaged(staged: readonly StagedEvent[], { position }: EndingEvent, ordinal: number): number {
    return staged.reduce((made, event) => made + this.#handle(event, position, made), ordinal);
  }

  end(event: EndingEvent, ordinal: number): void {
    const { transaction_id: transactionId } = event.data;
    this.#handle(event, event.position, ordinal);
    const isKnown = this.#transactions.isKnown(transactionId);
    const hasStaged = !isKnown || this.#transactions.events.has(transactionId);
    this.#remember(transactionId, event.metadata.occurred_at, hasStaged);
  }

  #isIgnored(event: RecordedEvent): boolean {
    return isLaterOpening(event) || this.#isForeign(event);
  }

  #isForeign(event: RecordedEvent): boolean {
    if (!Object.hasOwn(this.#projection.on, event.type) && !isEnding(event)) return false;
    const own = ownStreamOf(event);
    return own !== undefined && own.stream !== event.stream;
  }

  #handle(event: StagedEvent, position: string, ordinal: number): number {
    const { on } = this.#projection;
    if (!Object.hasOwn(on, event.type)) return 0;
    const handler = on[event.type] as Handler;
    const { id, type, data, metadata } = event;
    const ops = handler({ id, type, data, metadata, position, ordinal });
    for (const op of ops) this.#fold.add(op);
    return ops.length;
  }

  #stage(transactionId: string, event: RecordedEvent): void {
    if (!Object.hasOwn(this.#projection.on, event.type) || this.#transactions.closed.has(transactionId))
      return;
    const { id, type, version, data, metadata, position } = event;
    const staged = { id, type, version, data, metadata } as StagedEvent;
    const text = JSON.stringify(staged);
    this.#transactions.stage(transactionId, staged, text.length);
    this.#fold.add({
      kind: 'insert',
      table: 'staged_event',
      row: { transaction_id: transactionId, position, event: text },
    });
  }

  #close(event: EndingEvent): void {
    const staged = this.#transactions.events.get(event.data.transaction_id) ?? [];
    this.end(event, isCommit(event) ? this.applyStaged(staged, event, 0) : 0);
  }

  #remember(transactionId: string, closedAt: string, hasStaged: boolean): void {
    if (hasStaged) {
      this.#transactions.events.delete(transactionId);
      this.#fold.add({ kind: 'delete', table: 'staged_event', key: { transaction_id: transactionId } });
    }
    if (this.#transactions.closed.has(transactionId)) return;
    this.#transactions.closed.add(transactionId);
    this.#fold.add({
      kind: 'insert',
      table: 'closed_transaction',
      row: { id: transactionId, closed_at: closedAt },
    });
  }
}
