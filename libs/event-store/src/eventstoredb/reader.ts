import {
  BACKWARDS,
  END,
  FORWARDS,
  START,
  type EventStoreDBClient,
  type ReadStreamOptions,
} from '@eventstore/db-client';
import type { EventRegistry } from '@token-vault/contracts';
import { maxStreamLength, restOf, type StreamRange } from '../append-request.ts';
import type { DecodedEvents } from '../codec.ts';
import { comparePositions, type Position } from '../port.ts';
import { LogEnds, type LogEnd } from './log-end.ts';
import { positionOf, readFrom, recordedEvents } from './recorded.ts';
import type { ServerEvent } from './server-event.ts';
import { checkPrefix, everyStream, Scope, scopeFrom } from './scope.ts';
import { ServerCalls, type ServerCallSettings } from './server-calls.ts';

/** A stretch of the log. */
export interface Page extends DecodedEvents {
  /** Where the next page begins; undefined after the last. */
  readonly next: { readonly revision: number; readonly position: Position } | undefined;
}

/** A stretch of one stream. */
export interface StreamPage extends DecodedEvents {
  /** What is left of the range; undefined after the last. */
  readonly next: StreamRange | undefined;
}

interface ReaderSettings extends ServerCallSettings {
  readonly registry: EventRegistry;
  /** Looked for in the log if absent. */
  readonly streamPrefix: string | undefined;
}

const maxPageEvents = 500;

/** Reads pages of events, and where the log ends. */
export class Reader {
  readonly #registry: EventRegistry;
  readonly #calls: ServerCalls;
  readonly #ends: LogEnds;
  #scope: Promise<Scope> | undefined;

  /** @throws TypeError for a prefix that is none. */
  constructor({ registry, streamPrefix, ...settings }: ReaderSettings) {
    if (streamPrefix !== undefined) checkPrefix(streamPrefix);
    this.#registry = registry;
    this.#calls = new ServerCalls(settings);
    this.#ends = new LogEnds(this.#calls);
    this.#scope = streamPrefix === undefined ? undefined : Promise.resolve(new Scope(streamPrefix));
  }

  /** Found out once: a log keeps its names. */
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

  /** The beginning of a range of a stream. */
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

  /** Two positions of the end of the log at this moment. */
  async end(): Promise<LogEnd> {
    return this.#ends.find(await this.scope());
  }

  /** Ends after the reads under way. */
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

const startOf = ({ from, backwards }: StreamRange): ReadStreamOptions =>
  backwards
    ? { direction: BACKWARDS, fromRevision: from === maxStreamLength ? END : BigInt(from) }
    : { direction: FORWARDS, fromRevision: BigInt(from) };

function isWithin(position: Position, after: Position, until: Position): boolean {
  return comparePositions(position, after) > 0 && comparePositions(position, until) <= 0;
}
