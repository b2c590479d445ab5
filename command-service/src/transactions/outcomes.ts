import { streams, type VaultEvent } from '@token-vault/contracts';
import { noRevision, readEntity, type EventStore, type RecordedEvent } from '@token-vault/event-store';
import type { Clock, RequestContext } from '@token-vault/operations';
import { change } from '../aggregates/decider.ts';
import { systemContext } from '../aggregates/system-context.ts';
import { isOver, transactionDecider, type TransactionCommand } from './decider.ts';
import type { TransactionState } from './state.ts';

export interface TransactionOutcomes {
  /** Ends a transaction that is past its time, by an event. Gives the state, so that no caller acts on a transaction that is over. */
  endIfOver(tenantId: string, transactionId: string): Promise<TransactionState>;
  /** As `endIfOver`. The state of an ended transaction also holds all its enlisted writes. */
  endIfOverWithWrites(tenantId: string, transactionId: string): Promise<TransactionState>;
  /** Appends a fact that needs no decision, and gives the state after it. The transaction must exist. */
  record(tenantId: string, transactionId: string, event: VaultEvent): Promise<TransactionState>;
  /** Decides on the present state and appends. Repeats on a conflict. Gives the state before the append. */
  execute(
    tenantId: string,
    command: TransactionCommand,
    toEvent: RequestContext['event'],
  ): Promise<{ before: TransactionState; position: RecordedEvent['position'] | undefined }>;
}

/** The most ended transactions in memory. Their states are small. */
const mostEnded = 10_000;
/**
 * The most enlisted writes in memory, over all transactions. Beyond it the least recently used transaction is
 * dropped.
 */
const mostWrites = 200_000;

interface Known {
  state: TransactionState;
  revision: number;
  /** The number of its writes that are included in the sum of all. */
  counted: number;
}

const unread: Known = { state: transactionDecider.initialState, revision: noRevision, counted: 0 };

const sizeOf = ({ state }: Known): number => (state.kind === 'absent' ? 1 : state.writes.length + 1);

/**
 * The open transactions, as far as this process has read their streams. Each read continues where the last one ended,
 * so that a transaction of ten thousand writes is read once, not ten thousand times.
 */
class KnownTransactions {
  readonly #store: EventStore;
  readonly #known = new Map<string, Known>();
  #writes = 0;

  constructor(store: EventStore) {
    this.#store = store;
  }

  async read(stream: string): Promise<Known> {
    const known = this.#known.get(stream) ?? { ...unread };
    for await (const event of readEntity(this.#store, stream, { from: known.revision + 1 })) {
      apply(known, event);
    }
    if (known.revision !== noRevision) this.#keep(stream, known);
    return known;
  }

  /** The state after the append. The stream is read only when other events came in between. */
  async append(stream: string, event: VaultEvent): Promise<Known> {
    const appended = await this.#store.append(stream, [event], 'exists');
    const known = this.#known.get(stream);
    if (known?.revision !== appended.revision - 1) return this.read(stream);
    apply(known, { ...event, stream, ...appended });
    this.#keep(stream, known);
    return known;
  }

  forget(stream: string): void {
    this.#writes -= this.#known.get(stream)?.counted ?? 0;
    this.#known.delete(stream);
  }

  #keep(stream: string, known: Known): void {
    this.forget(stream);
    known.counted = sizeOf(known);
    this.#known.set(stream, known);
    this.#writes += known.counted;
    for (const other of this.#known.keys()) {
      if (this.#writes <= mostWrites || other === stream) return;
      this.forget(other);
    }
  }
}

/** Reads of one stream may overlap, so each event is folded only once. */
function apply(known: Known, event: RecordedEvent): void {
  if (event.revision !== known.revision + 1) return;
  known.state = transactionDecider.evolve(known.state, event);
  known.revision = event.revision;
}

const isEnded = ({ kind }: TransactionState): boolean => kind === 'committed' || kind === 'dropped';

export function createTransactionOutcomes(store: EventStore, clock: Clock): TransactionOutcomes {
  const transactions = new KnownTransactions(store);
  /** An ended transaction never changes again. */
  const ended = new Map<string, TransactionState>();
  const streamOf = streams.transaction;

  function remember(stream: string, state: TransactionState): void {
    if (!isEnded(state) || state.kind === 'absent') return;
    if (ended.size >= mostEnded) ended.clear();
    ended.set(stream, { ...state, writes: [], tokens: new Map() });
    transactions.forget(stream);
  }

  const execute: TransactionOutcomes['execute'] = async (tenantId, command, toEvent) => {
    const stream = streamOf(tenantId, command.id);
    const { decided, position } = await change({
      store,
      stream,
      load: () => transactions.read(stream),
      decide: ({ state }) => ({
        before: state,
        events: transactionDecider
          .decide(state, command)
          .slice(0, 1)
          .map((each) => toEvent(each, each.data)),
      }),
    });
    return { before: decided.before, position };
  };

  async function endIfOverWithWrites(tenantId: string, transactionId: string): Promise<TransactionState> {
    const { state } = await transactions.read(streamOf(tenantId, transactionId));
    if (!isOver(state, clock.now())) return state;
    const context = systemContext(tenantId, 'transaction-expiry', clock);
    const command = { kind: 'expire', id: transactionId, now: clock.now() } as const;
    await execute(tenantId, command, context.event.bind(context));
    return (await transactions.read(streamOf(tenantId, transactionId))).state;
  }

  return {
    endIfOverWithWrites,
    execute,

    async endIfOver(tenantId, transactionId) {
      const stream = streamOf(tenantId, transactionId);
      const known = ended.get(stream);
      if (known) return known;
      const state = await endIfOverWithWrites(tenantId, transactionId);
      remember(stream, state);
      return state;
    },

    async record(tenantId, transactionId, event) {
      const stream = streamOf(tenantId, transactionId);
      return (await transactions.append(stream, event)).state;
    },
  };
}
