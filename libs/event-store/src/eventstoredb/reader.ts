import { BACKWARDS, END, FORWARDS, START, type EventStoreDBClient } from '@eventstore/db-client';
import type { EventRegistry } from '@token-vault/contracts';
import { maxStreamLength, restOf, type StreamRange } from '../append-request.ts';
import type { DecodedEvents } from '../codec.ts';
import { comparePositions, type Position, type StoredEvent } from '../port.ts';
import { LogEnds, type LogEnd } from './log-end.ts';
import { positionOf, readFrom, recordedEvents, storedEvent } from './recorded.ts';
import type { RawEvent, ServerEvent } from './server-event.ts';
import { checkPrefix, everyStream, Scope, scopeFrom } from './scope.ts';
import { ServerCalls, type ServerCallSettings } from './server-calls.ts';

/** A stretch of the log. */
export interface Page extends DecodedEvents {
  /** The start of the next page; undefined after the last. */
  readonly next: { readonly revision: number; readonly position: Position } | undefined;
}

/** A stretch of one stream. */
export interface StreamPage extends DecodedEvents {
  /** The rest of the range; undefined after the last page. */
  readonly next: StreamRange | undefined;
}

/** A stretch of the log or of a stream, as stored. */
export interface StoredPage<Next> {
  readonly events: readonly StoredEvent[];
  /** The rest to read; undefined after the last page. */
  readonly next: Next | undefined;
}

interface ReaderSettings extends ServerCallSettings {
  readonly registry: EventRegistry;
  /** Looked up in the log if absent. */
  readonly streamPrefix: string | undefined;
}

const maxPageEvents = 500;

/** Reads pages of events, and the end of the log. */
export class Reader {
  readonly #registry: EventRegistry;
  readonly #calls: ServerCalls;
  readonly #ends: LogEnds;
  #scope: Promise<Scope> | undefined;

  /** @throws TypeError for an invalid prefix. */
  constructor({ registry, streamPrefix, ...settings }: ReaderSettings) {
    if (streamPrefix !== undefined) checkPrefix(streamPrefix);
    this.#registry = registry;
    this.#calls = new ServerCalls(settings);
    this.#ends = new LogEnds(this.#calls);
    this.#scope = streamPrefix === undefined ? undefined : Promise.resolve(new Scope(streamPrefix));
  }

  /** Looked up once: the names in a log do not change. */
  scope(): Promise<Scope> {
    return (this.#scope ??= this.#findScope().catch((error: unknown) => {
      this.#scope = undefined;
      throw error;
    }));
  }

  async #findScope(): Promise<Scope> {
    const { events } = await this.#calls.readLog({ from: START, filter: everyStream, maxCount: 1 });
    return scopeFrom(events[0]);
  }

  /** The first page of a range of a stream. */
  async streamPage(range: StreamRange): Promise<StreamPage> {
    const scope = await this.scope();
    const maxCount = Math.min(range.maxCount, maxPageEvents);
    const read = (client: EventStoreDBClient) =>
      client.readStream(scope.nameOf(range.stream), { ...startOf(range), maxCount });
    const { events, isLast } = await this.#calls.read(read, maxCount);
    const { next, ...page } = this.#page(scope, events, isLast);
    return { ...page, next: next && restOf(range, events.length, Number(events.at(-1)?.revision)) };
  }

  /** The log after `after` (exclusive) up to `until` (inclusive). */
  async logPage(after: Position, until: Position): Promise<Page> {
    const scope = await this.scope();
    const { filter } = scope;
    const from = readFrom(after);
    const { events, isLast } = await this.#calls.searchLog({ from, maxCount: maxPageEvents, filter });
    const reached = events.at(-1);
    const isOver = isLast || !reached?.position || comparePositions(positionOf(reached.position), until) >= 0;
    const wanted = events.filter(
      (event) => event.position && isWithin(positionOf(event.position), after, until),
    );
    return this.#page(scope, wanted, isOver, reached);
  }

  /** As `streamPage`, with stored events. */
  async storedStreamPage(range: StreamRange): Promise<StoredPage<StreamRange>> {
    const scope = await this.scope();
    const maxCount = Math.min(range.maxCount, maxPageEvents);
    const stream = scope.nameOf(range.stream);
    const { events, isLast } = await this.#calls.readRaw({ stream, ...startOf(range), maxCount });
    const last = events.at(-1);
    return {
      events: storedEvents(scope, events),
      next: isLast || !last ? undefined : restOf(range, events.length, last.revision),
    };
  }

  /** As `logPage`, with stored events. Pass `next` as `after`. */
  async storedLogPage(after: Position, until: Position): Promise<StoredPage<Position>> {
    const scope = await this.scope();
    const { filter } = scope;
    const read = { from: readFrom(after), maxCount: maxPageEvents, filter };
    const { events, isLast } = await this.#calls.readRaw(read);
    const stored = storedEvents(scope, events);
    const reached = events.at(-1);
    const isOver = isLast || !reached || comparePositions(positionOf(reached.position), until) >= 0;
    return {
      events: stored.filter(({ position }) => isWithin(position, after, until)),
      next: isOver ? undefined : positionOf(reached.position),
    };
  }

  /** The log before `before` (exclusive; its end if absent), newest first. Pass `next` as `before`. */
  async storedLogPageBack(before: Position | undefined): Promise<StoredPage<Position>> {
    const scope = await this.scope();
    const { filter } = scope;
    const from = before === undefined ? END : readFrom(before);
    const read = { from, direction: BACKWARDS, maxCount: maxPageEvents, filter } as const;
    const { events, isLast } = await this.#calls.readRaw(read);
    const reached = events.at(-1);
    return {
      events: storedEvents(scope, events),
      next: isLast || !reached ? undefined : positionOf(reached.position),
    };
  }

  /** Two positions at the end of the log at this moment. */
  async end(): Promise<LogEnd> {
    return this.#ends.find(await this.scope());
  }

  /** Resolves after the reads under way. */
  close(): Promise<void> {
    return this.#calls.close();
  }

  #page(scope: Scope, events: readonly ServerEvent[], isLast: boolean, reached = events.at(-1)): Page {
    const decoded = recordedEvents(this.#registry, scope, events);
    const end = isLast || decoded.failure ? undefined : reached;
    return {
      ...decoded,
      next: end?.position && { revision: Number(end.revision) + 1, position: positionOf(end.position) },
    };
  }
}

const storedEvents = (scope: Scope, events: readonly RawEvent[]): StoredEvent[] =>
  events.filter((event) => scope.includes(event)).map((event) => storedEvent(scope, event));

const startOf = ({ from, backwards }: StreamRange) =>
  backwards
    ? ({ direction: BACKWARDS, fromRevision: from === maxStreamLength ? END : BigInt(from) } as const)
    : ({ direction: FORWARDS, fromRevision: BigInt(from) } as const);

function isWithin(position: Position, after: Position, until: Position): boolean {
  return comparePositions(position, after) > 0 && comparePositions(position, until) <= 0;
}
