import { setImmediate as nextTurn } from 'node:timers/promises';
import { STREAM_NAME, type AllStreamSubscription, type EventStoreDBClient } from '@eventstore/db-client';
import { Bell } from '../bell.ts';
import { EventStoreUnavailableError, type Position } from '../port.ts';
import { asUnavailable } from './errors.ts';
import { positionOf, readFrom } from './recorded.ts';
import type { ServerEvent } from './server-event.ts';
import type { Scope } from './scope.ts';

/** Messages of the server other than events, in their order among the events. */
type Marker = { readonly checkpoint: Position } | { readonly isCaughtUp: true };

export interface Received {
  readonly events: readonly ServerEvent[];
  /** All events up to here were in `events` or do not pass the filter; undefined when no checkpoint followed the events. */
  readonly checkpoint: Position | undefined;
  /** The server said, after these events, that there are no more for now. */
  readonly isCaughtUp: boolean;
  /** The server had to wait before these events could be received: it may itself be behind the head. */
  readonly wasHeld: boolean;
  readonly isMoreWaiting: boolean;
}

const minCapacity = 64;
const maxWaitingBytes = 4 * 1024 * 1024;
/** Number of events that the server examines between two checkpoints. */
const searchWindow = 500;

/**
 * One subscription to the log, as a queue that is limited in events and bytes. When the queue is full, the subscription is paused; by flow
 * control, the server then pauses too.
 */
export class LiveLog {
  /** Rung when a message was received, or the subscription has failed. */
  readonly bell = new Bell();
  readonly #subscription: AllStreamSubscription;
  readonly #scope: Scope;
  readonly #maxBatch: number;
  readonly #capacity: number;
  #queue: (ServerEvent | Marker)[] = [];
  #bytes = 0;
  /** Number of events that have left the client's buffer, and the markers that belong behind a certain number of them. */
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
        // Must not throw: the client would then deliver no more messages.
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

  /** The reason why no more messages will arrive. Messages received before can still be taken. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  get hasReceived(): boolean {
    return this.#queue.length > 0;
  }

  /** Whether the subscription is paused because its reader is slow. */
  get isHeld(): boolean {
    return this.#subscription.isPaused();
  }

  /** Number of messages that arrived so far: shows whether the server still sends. */
  get messages(): number {
    return this.#messages;
  }

  /** Waits for the rest of the arriving events while the batch has room: the client emits events one by one. */
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
    // The server's own events in a stream of the vault, e.g. a tombstone, are skipped as if the filter had removed them.
    else if (event?.position) this.#push({ checkpoint: positionOf(event.position) });
    while (this.#markers[0] && this.#markers[0].after <= this.#emitted) {
      this.#push(this.#markers[0].marker);
      this.#markers.shift();
    }
  }

  /**
   * The client reports these at once, while earlier events may still wait in its buffer: a checkpoint applied at that moment would skip
   * events that were not delivered.
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
