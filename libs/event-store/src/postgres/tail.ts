import { listenTo } from '@token-vault/postgres';
import type { EventRegistry } from '@token-vault/contracts';
import type pg from 'pg';
import { Notifier } from '../notifier.ts';
import {
  comparePositions,
  isPosition,
  startPosition,
  type EventBatch,
  type Position,
  type StoredEvent,
  type RecordedEvent,
} from '../port.ts';
import { decodeEvents } from '../codec.ts';
import type { StoredAppend } from './appender.ts';
import { asUnavailable, discardClient, openClient, type ConnectionSettings } from './connection.ts';
import { maxPosition, readHead, readLogPage, type Page } from './reader.ts';

export interface TailOptions extends ConnectionSettings {
  readonly registry: EventRegistry;
  /** Maximum number of events kept for subscribers that are a little behind. */
  readonly maxRecentEvents: number;
  /** Maximum bytes (of JSON) of these events. */
  readonly maxRecentBytes: number;
  /** How often the tail reads the log without a notification. The read also detects a connection that was lost without an error. */
  readonly pollMs: number;
  /** Whether appends of this process are under way. */
  readonly isAppending: () => boolean;
  /** Called with the position of the newest event that was seen. */
  readonly onReached: (position: Position) => void;
}

/** A notification may arrive before the answer to its append. So the tail waits this time for `offer` before it reads the log. */
const offerDelayMs = 3;

/** Channel of `append_events`, with the head as payload. */
const appendChannel = 'event_store';

/**
 * The live end of the log, read and parsed once for all subscribers of a process: one LISTEN connection and the recent events. Works from
 * its creation until it fails or is closed, and cannot be opened again.
 */
export class Tail {
  /** Resolves when the tail follows the log; rejects when it cannot. */
  readonly ready: Promise<void>;
  /** Notified at new events, at a failure and at the end. */
  readonly changed = new Notifier();
  readonly #options: TailOptions;
  #client: pg.Client | undefined;
  #poll: NodeJS.Timeout | undefined;
  #isLoading = false;
  #isLoadPending = false;
  #failure: Error | undefined;
  #isClosed = false;
  /** Events after `#start` up to `#head`, and their sizes. */
  #events: RecordedEvent[] = [];
  #sizes: number[] = [];
  #bytes = 0;
  #start: Position = startPosition;
  #head: Position = startPosition;

  constructor(options: TailOptions) {
    this.#options = options;
    this.ready = this.#open().catch((error: unknown) => {
      this.#fail(asUnavailable(error));
      throw asUnavailable(error);
    });
    this.ready.catch(() => undefined);
  }

  get failure(): Error | undefined {
    return this.#failure;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  get head(): Position {
    return this.#head;
  }

  /** The events after `after`, possibly none; undefined when they are not in memory (any more) and must be read from the log. */
  read(after: Position, maxBatch: number): EventBatch | undefined {
    if (comparePositions(after, this.#start) < 0) return undefined;
    const first = this.#indexAfter(after);
    const events = this.#events.slice(first, first + maxBatch);
    const position = events.at(-1)?.position ?? after;
    return { events, position, isCaughtUp: comparePositions(position, this.#head) >= 0 };
  }

  /**
   * Adds events that this process has just appended, so that they are not read back. Only events that directly follow the head are added.
   * The tail reads all others after their notification, and also those that are offered while it reads the log.
   */
  offer(appends: readonly StoredAppend[]): void {
    if (!this.#poll || this.#isLoading || this.#failure || this.#isClosed) return;
    const stored: StoredEvent[] = [];
    const bytes: number[] = [];
    let head = BigInt(this.#head);
    for (const { request, result } of inLogOrder(appends)) {
      const { events, stream } = request;
      const before = BigInt(result.position) - BigInt(events.length);
      if (before !== head) continue;
      events.forEach((event, index) => {
        head += 1n;
        const revision = result.revision - events.length + 1 + index;
        stored.push({ ...event, stream, revision, position: head.toString() as Position });
        bytes.push(event.bytes);
      });
    }
    const end = stored.at(-1)?.position;
    if (end) this.#addRecent({ ...decodeEvents(this.#options.registry, stored), bytes }, end);
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#release();
  }

  async #open(): Promise<void> {
    const client = await openClient(this.#options, (error) => this.#fail(asUnavailable(error)));
    this.#client = client;
    if (this.#isClosed) return this.#release();
    let isHeadKnown = false;
    // Notifications before that are ignored: a load that begins before the head is known would set the head back.
    await listenTo(client, {
      [appendChannel]: (payload) => {
        if (isHeadKnown && isPosition(payload)) this.#onNotification(payload);
      },
    });
    this.#head = this.#start = await readHead(client);
    isHeadKnown = true;
    this.#poll = setInterval(() => this.#requestLoad(), this.#options.pollMs);
    this.#requestLoad();
  }

  #onNotification(position: Position): void {
    if (comparePositions(position, this.#head) <= 0) return;
    if (this.#options.isAppending()) setTimeout(() => this.#loadUnlessReached(position), offerDelayMs);
    else this.#requestLoad();
  }

  #loadUnlessReached(position: Position): void {
    if (comparePositions(position, this.#head) > 0) this.#requestLoad();
  }

  #requestLoad(): void {
    this.#isLoadPending = true;
    if (this.#isLoading) return;
    this.#isLoading = true;
    this.#load()
      .catch((error: unknown) => this.#fail(asUnavailable(error)))
      .finally(() => (this.#isLoading = false));
  }

  async #load(): Promise<void> {
    while (this.#isLoadPending && this.#client && !this.#isClosed) {
      this.#isLoadPending = false;
      const range = { after: this.#head, until: maxPosition };
      const page = await readLogPage(this.#client, this.#options.registry, range);
      if (page.end) this.#addRecent(page, page.end.position);
      if (!page.isLast) this.#isLoadPending = true;
    }
  }

  #addRecent(page: Pick<Page, 'bytes' | 'events' | 'failure'>, end: Position): void {
    this.#head = end;
    this.#options.onReached(end);
    if (page.failure) {
      // Subscribers read the log themselves: they get the events before the unreadable one, then the error.
      this.#drop(this.#events.length, end);
    } else {
      this.#events.push(...page.events);
      this.#sizes.push(...page.bytes);
      for (const size of page.bytes) this.#bytes += size;
      this.#dropOldest();
    }
    this.changed.notifyAll();
  }

  /** Drops many events at once, so that the cost of moving the rest is spread over many events. */
  #dropOldest(): void {
    const { maxRecentEvents, maxRecentBytes } = this.#options;
    if (this.#events.length <= maxRecentEvents && this.#bytes <= maxRecentBytes) return;
    let count = 0;
    let bytes = this.#bytes;
    while (this.#events.length - count > maxRecentEvents * 0.75 || bytes > maxRecentBytes * 0.75) {
      bytes -= this.#sizes[count] ?? 0;
      count++;
    }
    this.#drop(count, this.#events[count - 1]?.position ?? this.#head);
  }

  #drop(count: number, newStart: Position): void {
    this.#events.splice(0, count);
    for (const size of this.#sizes.splice(0, count)) this.#bytes -= size;
    this.#start = newStart;
  }

  #indexAfter(position: Position): number {
    let low = 0;
    let high = this.#events.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (comparePositions((this.#events[middle] as RecordedEvent).position, position) > 0) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  #fail(error: Error): void {
    if (this.#failure || this.#isClosed) return;
    this.#failure = error;
    this.#release();
  }

  #release(): void {
    clearInterval(this.#poll);
    if (this.#client) discardClient(this.#client);
    this.changed.notifyAll();
  }
}

/** A batch stores appends without an expectation last. */
const inLogOrder = (appends: readonly StoredAppend[]): readonly StoredAppend[] =>
  appends.toSorted((left, right) => comparePositions(left.result.position, right.result.position));

/** The tail that the subscribers of a process share: created by the first, created again after a failure, closed by the last. */
export class SharedTail {
  readonly #options: TailOptions;
  #tail: Tail | undefined;
  #members = 0;
  #isClosed = false;

  constructor(options: TailOptions) {
    this.#options = options;
  }

  /** Each `join` is followed by one `leave` of the same tail. */
  join(): Tail {
    if (!this.#tail || this.#tail.failure) {
      this.#tail = new Tail(this.#options);
      this.#members = 0;
    }
    if (this.#isClosed) this.#tail.close();
    this.#members++;
    return this.#tail;
  }

  offer(appends: readonly StoredAppend[]): void {
    this.#tail?.offer(appends);
  }

  leave(tail: Tail): void {
    if (tail !== this.#tail) return;
    this.#members--;
    if (this.#members > 0) return;
    tail.close();
    this.#tail = undefined;
  }

  close(): void {
    this.#isClosed = true;
    this.#tail?.close();
  }
}
