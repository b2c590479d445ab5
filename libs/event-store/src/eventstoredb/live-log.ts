import { setImmediate as nextTurn } from 'node:timers/promises';
import { STREAM_NAME, type AllStreamSubscription, type EventStoreDBClient } from '@eventstore/db-client';
import { Bell } from '../bell.ts';
import { EventStoreUnavailableError, type Position } from '../port.ts';
import { asUnavailable } from './errors.ts';
import { positionOf, readFrom } from './recorded.ts';
import type { ServerEvent } from './server-event.ts';
import type { Scope } from './scope.ts';

/** What the server sends besides events, at its place among them. */
type Marker = { readonly checkpoint: Position } | { readonly isCaughtUp: true };

export interface Received {
  readonly events: readonly ServerEvent[];
  /** Everything up to here was in `events` or is of no interest; undefined when nothing was said behind the events. */
  readonly checkpoint: Position | undefined;
  /** The server said, behind these events, that nothing follows for now. */
  readonly isCaughtUp: boolean;
  /** The server had to wait before these events could be received: it may have fallen behind the head itself. */
  readonly wasHeld: boolean;
  readonly isMoreWaiting: boolean;
}

const minCapacity = 64;
const maxWaitingBytes = 4 * 1024 * 1024;
/** Events that the server considers between two checkpoints. */
const searchWindow = 500;

/**
 * One subscription to the log, as a queue that is bounded in events and bytes: when it is full, the subscription is paused,
 * and with it, by flow control, the server.
 */
export class LiveLog {
  /** Rung when something was received, or the subscription has failed. */
  readonly bell = new Bell();
  readonly #subscription: AllStreamSubscription;
  readonly #scope: Scope;
  readonly #maxBatch: number;
  readonly #capacity: number;
  #queue: (ServerEvent | Marker)[] = [];
  #bytes = 0;
  /** Events that have left the client's buffer, and what belongs behind so many of them. */
  #emitted = 0;
  #markers: { readonly after: number; readonly marker: Marker }[] = [];
  #messages = 0;
  #wasHeld = false;
  #failure: Error | undefined;

  constructor(client: EventStoreDBClient, scope: Scope, after: Position, maxBatch: number) {
    this.#scope = scope;
    this.#maxBatch = maxBatch;
    this.#capacity = Math.max(maxBatch, minCapacity);
    const subscription = client.subscribeToAll({
      fromPosition: readFrom(after),
      filter: {
        filterOn: STREAM_NAME,
        ...scope.filter,
        checkpointInterval: 1,
        maxSearchWindow: searchWindow,
        // Must not throw: the client would go silent for good.
        checkpointReached: (_, position) => this.#mark({ checkpoint: positionOf(position) }),
      },
    });
    subscription.on('data', ({ event }) => this.#receive(event));
    subscription.on('caughtUp', () => this.#mark({ isCaughtUp: true }));
    subscription.on('error', (error) => this.fail(asUnavailable(error)));
    for (const end of ['end', 'close'] as const) {
      subscription.on(end, () =>
        this.fail(new EventStoreUnavailableError('the server ended the subscription')),
      );
    }
    this.#subscription = subscription;
  }

  /** Why nothing more will arrive. What was received before is still to be taken. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  get hasReceived(): boolean {
    return this.#queue.length > 0;
  }

  /** Paused, because its reader is slow. */
  get isHeld(): boolean {
    return this.#subscription.isPaused();
  }

  /** How many messages arrived so far: whether the server still speaks. */
  get messages(): number {
    return this.#messages;
  }

  /** Waits for the rest of what is arriving, as long as a batch has room: events come out of the client one by one. */
  async gather(): Promise<void> {
    for (let heard = -1; heard !== this.#messages && this.#queue.length < this.#maxBatch && !this.#failure;) {
      heard = this.#messages;
      await nextTurn();
    }
  }

  take(): Received {
    const events: ServerEvent[] = [];
    let checkpoint: Position | undefined;
    let isCaughtUp = false;
    let count = 0;
    for (const item of this.#queue) {
      const isEvent = 'type' in item;
      if (isEvent && events.length === this.#maxBatch) break;
      count++;
      if ('checkpoint' in item) ({ checkpoint } = item);
      else if (!isEvent) isCaughtUp = true;
      else {
        events.push(item);
        [checkpoint, isCaughtUp] = [undefined, false];
        this.#bytes -= sizeOf(item);
      }
    }
    this.#queue = this.#queue.slice(count);
    const wasHeld = this.#wasHeld;
    if (!this.#isFull() && this.isHeld) this.#subscription.resume();
    if (!this.hasReceived) this.#wasHeld = false;
    const isMoreWaiting = this.hasReceived || this.#subscription.readableLength > 0;
    return { events, checkpoint, isCaughtUp, wasHeld, isMoreWaiting };
  }

  fail(failure: Error): void {
    this.#failure ??= failure;
    this.bell.ring();
  }

  close(): void {
    this.#subscription.unsubscribe().catch(() => undefined);
    this.#subscription.destroy();
  }

  #receive(event: ServerEvent | undefined): void {
    this.#messages++;
    this.#emitted++;
    if (event && this.#scope.includes(event)) this.#push(event);
    // The server's own events in a stream of the vault, a tombstone say, are passed over as if the filter had.
    else if (event?.position) this.#push({ checkpoint: positionOf(event.position) });
    while (this.#markers[0] && this.#markers[0].after <= this.#emitted) {
      this.#push(this.#markers[0].marker);
      this.#markers.shift();
    }
  }

  /**
   * The client tells of these at once, while events that come before them may still wait in its buffer: taken at that
   * moment, a checkpoint would pass over events that nobody has seen.
   */
  #mark(marker: Marker): void {
    this.#messages++;
    const waiting = this.#subscription.readableLength;
    if (waiting === 0 && this.#markers.length === 0) this.#push(marker);
    else this.#markers.push({ after: this.#emitted + waiting, marker });
  }

  #push(item: ServerEvent | Marker): void {
    this.#queue.push(item);
    this.#bytes += sizeOf(item);
    if (this.#isFull()) {
      this.#wasHeld = true;
      this.#subscription.pause();
    }
    this.bell.ring();
  }

  #isFull(): boolean {
    return this.#queue.length >= this.#capacity || this.#bytes >= maxWaitingBytes;
  }
}

function sizeOf(item: ServerEvent | Marker): number {
  return 'data' in item && item.data instanceof Uint8Array ? item.data.length : 0;
}
