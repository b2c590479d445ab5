import type { EventBatch, EventStore, Position, RecordedEvent } from '@token-vault/event-store';
import type { Hurries } from './hurries.ts';
import { pause } from './leadership.ts';

export interface GatherOptions {
  readonly store: EventStore;
  /** The greatest number of events of a batch, and so of the events that are held. */
  readonly maxBatch: number;
  /** Whether an event may be delivered later, together with others. */
  readonly canWait: (event: RecordedEvent) => boolean;
  readonly maxHoldMs: number;
  readonly hurries: Hurries;
}

/**
 * The log after `after`, in fewer live batches than the store gives, because each batch costs a commit. Events that can
 * wait are held for up to `maxHoldMs` and delivered together; at once when an event comes that cannot wait, when there
 * are more to come, or when a reader waits for one of them. Events that are held when the subscription ends are not
 * delivered: the next subscription gives them again.
 */
export async function* gather(
  options: GatherOptions,
  after: Position,
  signal: AbortSignal,
): AsyncGenerator<EventBatch, void> {
  const { store, maxBatch, hurries } = options;
  const left = new AbortController();
  const subscription = store.subscribe(after, AbortSignal.any([signal, left.signal]), { maxBatch });
  const batches = subscription[Symbol.asyncIterator]();
  const gathering = new Gathering(options, batches, after);
  const stopListening = hurries.listen(() => gathering.deliverIfAwaited());
  try {
    for (let batch = await gathering.next(); batch; batch = await gathering.next()) yield batch;
  } finally {
    stopListening();
    // A batch that is awaited from the subscription does not come any more, and the subscription ends.
    left.abort();
    await batches.return?.();
  }
}

class Gathering {
  readonly #options: GatherOptions;
  readonly #batches: AsyncIterator<EventBatch, unknown>;
  #delivered: Position;
  /** The next batch of the subscription, when it was asked for during a hold. */
  #coming: Promise<IteratorResult<EventBatch, unknown>> | undefined;
  /** Ends the present hold. */
  #hold = new AbortController();

  constructor(options: GatherOptions, batches: AsyncIterator<EventBatch, unknown>, after: Position) {
    this.#options = options;
    this.#batches = batches;
    this.#delivered = after;
  }

  /** The next batch to deliver; undefined when the subscription has ended. */
  async next(): Promise<EventBatch | undefined> {
    const first = await (this.#coming ?? this.#batches.next());
    this.#coming = undefined;
    const batch = first.done ? undefined : await this.#grow(first.value);
    if (batch) this.#delivered = batch.position;
    return batch;
  }

  deliverIfAwaited(): void {
    if (this.#isAwaited()) this.#hold.abort();
  }

  /** The batch with those that come while it can wait; undefined when the subscription has ended. */
  async #grow(first: EventBatch): Promise<EventBatch | undefined> {
    if (!this.#canHold(first)) return first;
    const { maxBatch, maxHoldMs } = this.#options;
    this.#hold = new AbortController();
    const holdIsOver = pause(maxHoldMs, this.#hold.signal);
    try {
      let batch = first;
      for (let newest = first; batch.events.length < maxBatch && this.#canHold(newest);) {
        this.#coming ??= this.#batches.next();
        // The race also handles an error that comes after the hold: the next call throws it.
        const more = await Promise.race([this.#coming, holdIsOver]);
        if (more?.done) return undefined;
        if (!more || batch.events.length + more.value.events.length > maxBatch) break;
        this.#coming = undefined;
        newest = more.value;
        batch = { ...newest, events: [...batch.events, ...newest.events] };
      }
      return batch;
    } finally {
      this.#hold.abort();
    }
  }

  #canHold({ isCaughtUp, events }: EventBatch): boolean {
    return isCaughtUp && events.every(this.#options.canWait) && !this.#isAwaited();
  }

  #isAwaited(): boolean {
    return this.#options.hurries.isAwaitedBeyond(this.#delivered);
  }
}
