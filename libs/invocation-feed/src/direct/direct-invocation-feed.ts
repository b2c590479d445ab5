import {
  EventStoreUnavailableError,
  type EventBatch,
  type EventStore,
  type Position,
} from '@token-vault/event-store';
import { Backoff } from '../backoff.ts';
import { ContiguousProgress } from '../contiguous.ts';
import { Deliveries } from '../deliveries.ts';
import type {
  CheckpointStore,
  DeliveryOptions,
  Invocation,
  InvocationFeed,
  InvocationHandler,
  ToInvocation,
} from '../port.ts';
import { CheckpointWriter } from './checkpoint-writer.ts';

export interface DirectInvocationFeedOptions extends DeliveryOptions {
  readonly store: EventStore;
  /**
   * For this feed only: two processes with one checkpoint would both deliver all invocations, and only the claim would prevent second runs.
   */
  readonly checkpoints: CheckpointStore;
  readonly toInvocation: ToInvocation;
  /** Maximum number of delivered and unfinished invocations, including waiting ones; 10 000 by default. */
  readonly maxUnfinished?: number;
}

/** Takes invocations directly from the log: for one process, without a broker. */
export function createDirectInvocationFeed(options: DirectInvocationFeedOptions): InvocationFeed {
  const closing = new AbortController();
  let running: Promise<void> | undefined;
  return {
    start(handler, signal) {
      if (running) throw new TypeError('a feed is started once');
      running = run(options, handler, AbortSignal.any([signal, closing.signal]));
      return running;
    },
    async close() {
      closing.abort();
      await running?.catch(() => undefined);
    },
  };
}

async function run(
  options: DirectInvocationFeedOptions,
  handler: InvocationHandler,
  signal: AbortSignal,
): Promise<void> {
  const start = await loadCheckpoint(options, signal);
  if (start === undefined) return;
  const writer = new CheckpointWriter(options.checkpoints, start, signal, (error) =>
    options.onTrouble?.(error),
  );
  const follower = new Follower(options, handler, start, (position) => writer.note(position));
  try {
    await follower.follow(signal);
  } finally {
    await follower.drain();
    await writer.flush();
  }
}

async function loadCheckpoint(
  { checkpoints, onTrouble }: DirectInvocationFeedOptions,
  signal: AbortSignal,
): Promise<Position | undefined> {
  const backoff = new Backoff(signal);
  while (!signal.aborted) {
    try {
      return await checkpoints.load();
    } catch (error) {
      onTrouble?.(error);
      await backoff.pause();
    }
  }
  return undefined;
}

class Follower {
  readonly #options: DirectInvocationFeedOptions;
  readonly #deliveries: Deliveries;
  readonly #progress: ContiguousProgress<Position>;
  /** Invocations up to here were delivered by this process and are not delivered again, whatever the checkpoint is. */
  #position: Position;
  #onFreePlace: () => void = () => undefined;

  constructor(
    options: DirectInvocationFeedOptions,
    handler: InvocationHandler,
    start: Position,
    onReached: (position: Position) => void,
  ) {
    this.#options = options;
    this.#deliveries = new Deliveries(handler, options);
    this.#position = start;
    this.#progress = new ContiguousProgress(start, () => onReached(this.#progress.reached));
  }

  async follow(signal: AbortSignal): Promise<void> {
    const backoff = new Backoff(signal);
    signal.addEventListener('abort', () => this.#onFreePlace(), { once: true });
    while (!signal.aborted) {
      try {
        for await (const batch of this.#options.store.subscribe(this.#position, signal)) {
          await this.#handOut(batch, signal);
          if (signal.aborted) return;
          this.#position = batch.position;
          backoff.succeed();
        }
      } catch (error) {
        if (!(error instanceof EventStoreUnavailableError)) throw error;
        this.#options.onTrouble?.(error);
      }
      await backoff.pause();
    }
  }

  drain(): Promise<void> {
    return this.#deliveries.drain(this.#options.drainTimeoutMs ?? 30_000);
  }

  async #handOut({ events, position }: EventBatch, signal: AbortSignal): Promise<void> {
    for (const event of events) {
      const invocation = this.#options.toInvocation(event);
      if (!invocation) continue;
      await this.#room(signal);
      if (signal.aborted) return;
      this.#deliver(invocation, event.position);
    }
    this.#progress.pass(position);
  }

  #deliver(invocation: Invocation, position: Position): void {
    const done = this.#progress.begin(position);
    void this.#deliveries.deliver(invocation).then((isAcknowledged) => {
      if (!isAcknowledged) return;
      done();
      this.#onFreePlace();
    });
  }

  /** Pauses the subscription while too many invocations are unfinished. */
  async #room(signal: AbortSignal): Promise<void> {
    const { maxUnfinished = 10_000 } = this.#options;
    while (this.#progress.unfinished >= maxUnfinished && !signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#onFreePlace = resolve;
      });
    }
  }
}
