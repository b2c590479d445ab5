import { StreamNotFoundError, type EventStoreDBClient, type StreamingRead } from '@eventstore/db-client';
import { EventStoreUnavailableError } from '../port.ts';
import { LastingConnection, type ConnectionSettings } from './connection.ts';
import { asUnavailable } from './errors.ts';
import { readFiltered, type LogRead } from './filtered-read.ts';
import { Gate } from './gate.ts';
import type { ServerEvent } from './server-event.ts';

export interface ServerCallSettings extends ConnectionSettings {
  /** Most reads under way at once, of the 100 calls that the server allows on a connection. */
  readonly maxConcurrentReads: number;
  /** Most bytes of data of a read, give or take an event: the rest of the call is cancelled. */
  readonly maxPageBytes: number;
}

export interface Drained {
  readonly events: readonly ServerEvent[];
  /** Nothing followed at the moment of reading. */
  readonly isLast: boolean;
}

type Read = StreamingRead<{ readonly event?: ServerEvent }>;

/** How many times as long as another read a search may take. */
const searchPatience = 6;

/**
 * Reads of the server, whole into memory: each call is short, always drained or cancelled, and never held open by a slow reader
 * (abandoned reads stay open, and the 100th would hang the client).
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

  /** Reads what `start` asks for. `maxCount` is what was asked for too. @throws EventStoreUnavailableError */
  read(
    start: (client: EventStoreDBClient) => Read,
    maxCount: number,
    deadlineMs = this.#settings.deadlineMs,
  ): Promise<Drained> {
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

  /** Reads `$all` where others may have written much between what is looked for: the server says nothing until it has found something. */
  searchLog(read: LogRead): Promise<Drained> {
    return this.readLog(read, searchPatience * this.#settings.deadlineMs);
  }

  /** Ends after the reads under way. */
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
 * The events of one call, up to the bytes of a page. The rest is cancelled and drained: only a call that was read to its
 * end is forgotten by the client, buffer and all.
 */
async function drain(read: Read, { deadlineMs, maxBytes, maxCount }: DrainLimits): Promise<Drained> {
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

/** Not awaited: it waits for the connection, which may never come. */
function cancel(read: Read): void {
  read.cancel().catch(() => undefined);
}
