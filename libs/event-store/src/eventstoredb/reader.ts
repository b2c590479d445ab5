import {
  BACKWARDS,
  END,
  FORWARDS,
  StreamNotFoundError,
  type EventStoreDBClient,
  type ReadStreamOptions,
  type StreamingRead,
} from '@eventstore/db-client';
import type { EventRegistry } from '@token-vault/contracts';
import { maxStreamLength, restOf, type StreamRange } from '../append-request.ts';
import type { DecodedEvents } from '../codec.ts';
import { comparePositions, EventStoreUnavailableError, startPosition, type Position } from '../port.ts';
import { LastingConnection, type ConnectionSettings } from './connection.ts';
import { asUnavailable } from './errors.ts';
import { Gate } from './gate.ts';
import { isSystemEvent, positionOf, readFrom, recordedEvents, type ServerEvent } from './recorded.ts';

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

export interface LogEnd {
  /** Of the last event, whoever wrote it. A subscriber has seen everything when it has been shown everything up to here. */
  readonly last: Position;
  /** Of the last event of the vault, as far as it is near. */
  readonly head: Position;
}

interface ReaderSettings extends ConnectionSettings {
  readonly registry: EventRegistry;
  /** Most reads under way at once, of the 100 calls that the server allows on a connection. */
  readonly maxConcurrentReads: number;
  /** Most bytes of data of a page, give or take an event: the rest of the call is cancelled. */
  readonly maxPageBytes: number;
}

const maxPageEvents = 500;
/** How far back the head looks for an event that is not the server's own. */
const maxSystemEvents = 32;

/**
 * Reads whole pages into memory: each call is short, always drained or cancelled, and never held open by a slow reader
 * (abandoned reads stay open, and the 100th would hang the client).
 */
export class Reader {
  readonly #settings: ReaderSettings;
  readonly #connection: LastingConnection;
  readonly #gate: Gate;

  constructor(settings: ReaderSettings) {
    this.#settings = settings;
    this.#connection = new LastingConnection(settings.connectionString);
    this.#gate = new Gate(settings.maxConcurrentReads, settings.deadlineMs / 2);
  }

  /** The beginning of a range of a stream. */
  async streamPage(range: StreamRange): Promise<StreamPage> {
    const maxCount = Math.min(range.maxCount, maxPageEvents);
    const { events, isLast } = await this.#read(
      (client) => client.readStream(range.stream, { ...startOf(range), maxCount }),
      maxCount,
    );
    const { next, ...page } = this.#page(events, isLast);
    return { ...page, next: next && restOf(range, events.length, Number(events.at(-1)?.revision)) };
  }

  /** The log after `after` (exclusive) up to `until` (inclusive). */
  async logPage(after: Position, until: Position): Promise<Page> {
    const { events, isLast } = await this.#read((client) =>
      client.readAll({ fromPosition: readFrom(after), maxCount: maxPageEvents }),
    );
    const reached = events.at(-1);
    const isOver = isLast || !reached?.position || comparePositions(positionOf(reached.position), until) >= 0;
    const wanted = events.filter(
      (event) => event.position && isWithin(positionOf(event.position), after, until),
    );
    return this.#page(wanted, isOver, reached);
  }

  /** Two positions of the end of the log at this moment. */
  async end(): Promise<LogEnd> {
    const [last] = await this.#readBack(1);
    if (!last?.position) return { last: startPosition, head: startPosition };
    const isOurs = !isSystemEvent(last);
    const newest = isOurs
      ? last
      : (await this.#readBack(maxSystemEvents)).find((event) => !isSystemEvent(event));
    const position = positionOf(last.position);
    return { last: position, head: newest?.position ? positionOf(newest.position) : position };
  }

  /** Ends after the reads under way. */
  async close(): Promise<void> {
    await this.#gate.idle();
    await this.#connection.close();
  }

  async #readBack(maxCount: number): Promise<readonly ServerEvent[]> {
    const { events } = await this.#read((client) =>
      client.readAll({ fromPosition: END, direction: BACKWARDS, maxCount }),
    );
    return events;
  }

  #page(events: readonly ServerEvent[], isLast: boolean, reached = events.at(-1)): Page {
    const decoded = recordedEvents(
      this.#settings.registry,
      events.filter((event) => !isSystemEvent(event)),
    );
    const end = isLast || decoded.failure ? undefined : reached;
    return {
      ...decoded,
      next: end?.position && { revision: Number(end.revision) + 1, position: positionOf(end.position) },
    };
  }

  #read(start: (client: EventStoreDBClient) => Read, maxCount = maxPageEvents): Promise<Drained> {
    return this.#gate.pass(async () => {
      const connection = this.#connection.get();
      try {
        return await connection.use((client) => drain(start(client), this.#settings, maxCount));
      } catch (error) {
        const failure = asUnavailable(error);
        if (failure instanceof EventStoreUnavailableError) this.#connection.discard(connection);
        throw failure;
      }
    });
  }
}

const startOf = ({ from, backwards }: StreamRange): ReadStreamOptions =>
  backwards
    ? { direction: BACKWARDS, fromRevision: from === maxStreamLength ? END : BigInt(from) }
    : { direction: FORWARDS, fromRevision: BigInt(from) };

type Read = StreamingRead<{ readonly event?: ServerEvent }>;

interface Drained {
  readonly events: readonly ServerEvent[];
  /** Nothing followed at the moment of reading. */
  readonly isLast: boolean;
}

/**
 * The events of one call, up to the bytes of a page. The rest is cancelled and drained: only a call that was read to its
 * end is forgotten by the client, buffer and all.
 */
async function drain(
  read: Read,
  { deadlineMs, maxPageBytes }: ReaderSettings,
  maxCount: number,
): Promise<Drained> {
  const events: ServerEvent[] = [];
  let [count, bytes] = [0, 0];
  let isCut = false;
  // Also hears what comes after the loop was left: unheard it would end the process.
  read.on('error', () => undefined);
  // Reads have no deadline of their own.
  const timer = setTimeout(
    () => read.destroy(new EventStoreUnavailableError('the read was not answered in time')),
    deadlineMs,
  );
  try {
    for await (const { event } of read as AsyncIterable<{ readonly event?: ServerEvent }>) {
      if (isCut) continue;
      timer.refresh();
      count++;
      if (event) events.push(event);
      bytes += event?.data instanceof Uint8Array ? event.data.length : 0;
      isCut = bytes >= maxPageBytes;
      if (isCut) cancel(read);
    }
    return { events, isLast: !isCut && count < maxCount };
  } catch (error) {
    if (error instanceof StreamNotFoundError) return { events: [], isLast: true };
    if (isCut) return { events, isLast: false };
    throw error;
  } finally {
    clearTimeout(timer);
    cancel(read);
  }
}

/** Not awaited: it waits for the connection, which may never come. */
function cancel(read: Read): void {
  read.cancel().catch(() => undefined);
}

function isWithin(position: Position, after: Position, until: Position): boolean {
  return comparePositions(position, after) > 0 && comparePositions(position, until) <= 0;
}
