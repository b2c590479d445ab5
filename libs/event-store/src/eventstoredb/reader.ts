import type { EventRegistry } from '@token-vault/contracts';
import { maxStreamLength, restOf, type StreamRange } from '../append-request.ts';
import type { DecodedEvents } from '../codec.ts';
import { comparePositions, startPosition, type Position, type StoredEvent } from '../port.ts';
import { LogEnds, type LogEnd } from './log-end.ts';
import { recordedEvents, storedEvent } from './recorded.ts';
import type { ServerEvent } from './server-event.ts';
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
    const { events } = await this.#calls.read({ from: startPosition, filter: everyStream, maxCount: 1 });
    return scopeFrom(events[0]);
  }

  /** The first page of a range of a stream. */
  async streamPage(range: StreamRange): Promise<StreamPage> {
    const scope = await this.scope();
    const { events, isLast } = await this.#calls.read(readOf(scope, range));
    const { next, ...page } = this.#page(scope, events, isLast);
    return { ...page, next: next && restOf(range, events.length, next.revision - 1) };
  }

  /** The log after `after` (exclusive) up to `until` (inclusive). */
  async logPage(after: Position, until: Position): Promise<Page> {
    const scope = await this.scope();
    const { filter } = scope;
    const read = { from: after, maxCount: maxPageEvents, filter };
    const { events, isLast } = await this.#calls.search(read);
    const reached = events.at(-1);
    const isOver = isLast || !reached || comparePositions(reached.position, until) >= 0;
    const wanted = events.filter(({ position }) => isWithin(position, after, until));
    return this.#page(scope, wanted, isOver, reached);
  }

  /** As `streamPage`, with stored events. */
  async storedStreamPage(range: StreamRange): Promise<StoredPage<StreamRange>> {
    const scope = await this.scope();
    const { events, isLast } = await this.#calls.read(readOf(scope, range));
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
    const read = { from: after, maxCount: maxPageEvents, filter };
    const { events, isLast } = await this.#calls.search(read);
    const stored = storedEvents(scope, events);
    const reached = events.at(-1);
    const isOver = isLast || !reached || comparePositions(reached.position, until) >= 0;
    return {
      events: stored.filter(({ position }) => isWithin(position, after, until)),
      next: isOver ? undefined : reached.position,
    };
  }

  /** The log before `before` (exclusive; its end if absent), newest first. Pass `next` as `before`. */
  async storedLogPageBack(before: Position | undefined): Promise<StoredPage<Position>> {
    const scope = await this.scope();
    const { filter } = scope;
    const read = { from: before ?? 'end', isBackwards: true, maxCount: maxPageEvents, filter } as const;
    const { events, isLast } = await this.#calls.search(read);
    const reached = events.at(-1);
    return {
      events: storedEvents(scope, events),
      next: isLast || !reached ? undefined : reached.position,
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
      next: end && { revision: end.revision + 1, position: end.position },
    };
  }
}

const storedEvents = (scope: Scope, events: readonly ServerEvent[]): StoredEvent[] =>
  events.filter((event) => scope.includes(event)).map((event) => storedEvent(scope, event));

/** The first page of a range. */
const readOf = (scope: Scope, { stream, from, backwards, maxCount }: StreamRange) => ({
  stream: scope.nameOf(stream),
  from: backwards && from === maxStreamLength ? ('end' as const) : from,
  isBackwards: backwards,
  maxCount: Math.min(maxCount, maxPageEvents),
});

function isWithin(position: Position, after: Position, until: Position): boolean {
  return comparePositions(position, after) > 0 && comparePositions(position, until) <= 0;
}
