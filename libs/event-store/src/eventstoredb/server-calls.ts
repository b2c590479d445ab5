import { StreamNotFoundError, type EventStoreDBClient, type StreamingRead } from '@eventstore/db-client';
import { EventStoreUnavailableError } from '../port.ts';
import { LastingConnection, type ConnectionSettings } from './connection.ts';
import { asUnavailable } from './errors.ts';
import { readConverted, readFiltered, type LogRead, type StreamRead } from './filtered-read.ts';
import { Gate } from './gate.ts';
import { rawEventOf, type RawEvent, type ServerEvent } from './server-event.ts';

export interface ServerCallSettings extends ConnectionSettings {
  /** Maximum number of concurrent reads, of the 100 calls that the server allows on a connection. */
  readonly maxConcurrentReads: number;
  /** Maximum bytes of data of a read, plus at most one event: the rest of the call is cancelled. */
  readonly maxPageBytes: number;
}

export interface Drained<Event = ServerEvent> {
  readonly events: readonly Event[];
  /** No event followed at the moment of reading. */
  readonly isLast: boolean;
}

type Read<Event> = StreamingRead<{ readonly event?: Event }>;
/** Data that the server does not treat as JSON arrives as bytes. */
type WithData = { readonly data?: unknown };

/** A search may take so many times as long as another read. */
const searchPatience = 6;

/**
 * Reads of the server, completely into memory. Each call is short, always drained or cancelled, and never held open by a slow reader
 * (abandoned reads stay open, and the 100th would block the client).
 */
export class ServerCalls {
  readonly #settings: ServerCallSettings;
  readonly #connection: LastingConnection;
  readonly #gate: Gate;

  constructor(settings: ServerCallSettings) {
    this.#settings = settings;
    this.#connection = new LastingConnection(settings.connectionString);
    this.#gate = new Gate(settings.maxConcurrentReads, settings.deadlineMs / 2);
  }

  /** Runs the read that `start` makes. `maxCount` is the count that `start` requests. @throws EventStoreUnavailableError */
  read<Event extends WithData>(
    start: (client: EventStoreDBClient) => Read<Event>,
    maxCount: number,
    deadlineMs = this.#settings.deadlineMs,
  ): Promise<Drained<Event>> {
    const limits = { maxCount, deadlineMs, maxBytes: this.#settings.maxPageBytes };
    return this.#gate.pass(async () => {
      const connection = this.#connection.get();
      try {
        return await connection.use((client) => drain(start(client), limits));
      } catch (error) {
        const failure = asUnavailable(error);
        if (failure instanceof EventStoreUnavailableError) this.#connection.discard(connection);
        throw failure;
      }
    });
  }

  /** Reads `$all`. */
  readLog(read: LogRead, deadlineMs = this.#settings.deadlineMs): Promise<Drained> {
    return this.read((client) => readFiltered(client, read), read.maxCount, deadlineMs);
  }

  /** Reads `$all` where many events of other applications may lie in between: the server sends nothing until it finds an event. */
  searchLog(read: LogRead): Promise<Drained> {
    return this.readLog(read, searchPatience * this.#settings.deadlineMs);
  }

  /** Reads `$all`, as `searchLog`, or a stream; returns the events as stored. */
  readRaw(read: LogRead | StreamRead): Promise<Drained<RawEvent>> {
    const deadlineMs = this.#settings.deadlineMs * ('stream' in read ? 1 : searchPatience);
    return this.read((client) => readConverted(client, read, rawEventOf), read.maxCount, deadlineMs);
  }

  /** Resolves after the reads under way. */
  async close(): Promise<void> {
    await this.#gate.idle();
    await this.#connection.close();
  }
}

interface DrainLimits {
  readonly maxCount: number;
  readonly maxBytes: number;
  readonly deadlineMs: number;
}

/**
 * The events of one call, up to the bytes of a page. The rest is cancelled and drained: the client frees a call and its buffer only when
 * the call was read to its end.
 */
async function drain<Event extends WithData>(
  read: Read<Event>,
  { deadlineMs, maxBytes, maxCount }: DrainLimits,
): Promise<Drained<Event>> {
  const events: Event[] = [];
  let [count, bytes] = [0, 0];
  let isCut = false;
  // Also receives errors after the loop has ended: an unhandled one would end the process.
  read.on('error', () => undefined);
  // Reads have no deadline of their own.
  const timer = setTimeout(
    () => read.destroy(new EventStoreUnavailableError('the read was not answered in time')),
    deadlineMs,
  );
  try {
    for await (const { event } of read as AsyncIterable<{ readonly event?: Event }>) {
      if (isCut) continue;
      timer.refresh();
      count++;
      if (event) events.push(event);
      bytes += event?.data instanceof Uint8Array ? event.data.length : 0;
      isCut = bytes >= maxBytes;
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

/** Not awaited: it waits for the connection, which may never be made. */
function cancel(read: Pick<Read<unknown>, 'cancel'>): void {
  read.cancel().catch(() => undefined);
}
