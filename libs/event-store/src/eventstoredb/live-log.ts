import { setImmediate as nextTurn } from 'node:timers/promises';
import type { EventStoreDBClient } from '@eventstore/db-client';
import { convertToCommandError } from '@eventstore/db-client/dist/utils/CommandError.js';
import { Notifier } from '../notifier.ts';
import { EventStoreUnavailableError, type Position } from '../port.ts';
import { asUnavailable } from './errors.ts';
import { makeReadCall, type ReadCall } from './read-call.ts';
import type { ReadMessage } from './read-message.ts';
import type { Scope } from './scope.ts';
import type { ServerEvent } from './server-event.ts';

export interface Received {
  readonly events: readonly ServerEvent[];
  /** All events up to here were in `events` or do not pass the filter; undefined when no checkpoint followed the events. */
  readonly checkpoint: Position | undefined;
  /** The server said, after these events, that there are no more for now. */
  readonly isCaughtUp: boolean;
  /** The subscription was paused before these events could be received: it may itself be behind the head. */
  readonly wasPaused: boolean;
  readonly hasMore: boolean;
}

const minCapacity = 64;
const maxQueuedBytes = 4 * 1024 * 1024;
/** Number of events that the server examines between two checkpoints. */
const checkpointEvery = 500;

/**
 * One subscription to the log, as a queue that is limited in events and bytes. When the queue is full, the subscription is paused; by flow
 * control, the server then pauses too.
 */
export class LiveLog {
  /** Notified when a message was received, or the subscription has failed. */
  readonly changed = new Notifier();
  readonly #scope: Scope;
  readonly #maxBatch: number;
  readonly #capacity: number;
  #call: ReadCall | undefined;
  #queue: ReadMessage[] = [];
  #bytes = 0;
  #messages = 0;
  #wasPaused = false;
  #isClosed = false;
  #failure: Error | undefined;

  constructor(client: EventStoreDBClient, scope: Scope, after: Position, maxBatch: number) {
    this.#scope = scope;
    this.#maxBatch = maxBatch;
    this.#capacity = Math.max(maxBatch, minCapacity);
    const subscription = { after, filter: scope.filter, checkpointEvery };
    const fail = (error: Error) => this.fail(asUnavailable(convertToCommandError(error)));
    makeReadCall(client, subscription, (call) => {
      this.#call = call;
      call.on('data', (message: ReadMessage) => this.#receive(message)).on('error', fail);
      call.on('end', () => this.fail(new EventStoreUnavailableError('the server ended the subscription')));
    }).then((call) => this.#isClosed && call.cancel(), fail);
  }

  /** The reason why no more messages will arrive. Messages received before can still be taken. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  get hasReceived(): boolean {
    return this.#queue.length > 0;
  }

  /** Whether the subscription is paused because its reader is slow. */
  get isPaused(): boolean {
    return this.#call?.isPaused() ?? false;
  }

  /** Number of messages that arrived so far: shows whether the server still sends. */
  get messages(): number {
    return this.#messages;
  }

  /** Waits for the rest of the arriving events while the batch has room: they arrive one by one. */
  async gather(): Promise<void> {
    for (
      let before = -1;
      before !== this.#messages && this.#queue.length < this.#maxBatch && !this.#failure;
    ) {
      before = this.#messages;
      await nextTurn();
    }
  }

  take(): Received {
    const events: ServerEvent[] = [];
    let checkpoint: Position | undefined;
    let isCaughtUp = false;
    let count = 0;
    for (const message of this.#queue) {
      const isEvent = 'event' in message;
      if (isEvent && events.length === this.#maxBatch) break;
      count++;
      if ('checkpoint' in message) ({ checkpoint } = message);
      else if (!isEvent) isCaughtUp = true;
      else {
        events.push(message.event);
        [checkpoint, isCaughtUp] = [undefined, false];
        this.#bytes -= message.event.data.length;
      }
    }
    this.#queue = this.#queue.slice(count);
    const wasPaused = this.#wasPaused;
    if (!this.#isFull() && this.isPaused) this.#call?.resume();
    if (!this.hasReceived) this.#wasPaused = false;
    const hasMore = this.hasReceived || (this.#call?.readableLength ?? 0) > 0;
    return { events, checkpoint, isCaughtUp, wasPaused, hasMore };
  }

  fail(failure: Error): void {
    this.#failure ??= failure;
    this.changed.notifyAll();
  }

  close(): void {
    this.#isClosed = true;
    this.#call?.cancel();
  }

  #receive(message: ReadMessage): void {
    this.#messages++;
    // The server's own events in a stream of the vault, e.g. a tombstone, are skipped as if the filter had removed them.
    if ('event' in message && !this.#scope.includes(message.event))
      this.#push({ checkpoint: message.event.position });
    else if ('event' in message || 'checkpoint' in message || 'isCaughtUp' in message) this.#push(message);
  }

  #push(message: ReadMessage): void {
    this.#queue.push(message);
    if ('event' in message) this.#bytes += message.event.data.length;
    if (this.#isFull()) {
      this.#wasPaused = true;
      this.#call?.pause();
    }
    this.changed.notifyAll();
  }

  #isFull(): boolean {
    return this.#queue.length >= this.#capacity || this.#bytes >= maxQueuedBytes;
  }
}
