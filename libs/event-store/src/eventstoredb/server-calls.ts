import type { EventStoreDBClient } from '@eventstore/db-client';
import { convertToCommandError } from '@eventstore/db-client/dist/utils/CommandError.js';
import { EventStoreUnavailableError } from '../port.ts';
import { LastingConnection, type ConnectionSettings } from './connection.ts';
import { asUnavailable } from './errors.ts';
import { Semaphore } from './semaphore.ts';
import { makeReadCall, type LogRead, type ReadCall, type StreamRead } from './read-call.ts';
import type { ReadMessage } from './read-message.ts';
import type { ServerEvent } from './server-event.ts';

export interface ServerCallSettings extends ConnectionSettings {
  /** Maximum number of concurrent reads, of the 100 calls that the server allows on a connection. */
  readonly maxConcurrentReads: number;
  /** Maximum bytes of data of a read, plus at most one event: the rest of the call is cancelled. */
  readonly maxPageBytes: number;
}

export interface ReadResult {
  readonly events: readonly ServerEvent[];
  /** No event followed at the moment of reading. */
  readonly isLast: boolean;
}

/** The deadline of a search is the deadline of another read times this factor. */
const searchDeadlineFactor = 6;

/**
 * Reads of the server, completely into memory. Each call is short, and is always read to its end or cancelled: a slow reader would keep it
 * open, and 100 open calls would block the client.
 */
export class ServerCalls {
  readonly #settings: ServerCallSettings;
  readonly #connection: LastingConnection;
  readonly #semaphore: Semaphore;

  constructor(settings: ServerCallSettings) {
    this.#settings = settings;
    this.#connection = new LastingConnection(settings.connectionString);
    this.#semaphore = new Semaphore(settings.maxConcurrentReads, settings.deadlineMs / 2);
  }

  /** @throws EventStoreUnavailableError */
  read(read: LogRead | StreamRead, deadlineMs = this.#settings.deadlineMs): Promise<ReadResult> {
    const limits = { deadlineMs, maxBytes: this.#settings.maxPageBytes };
    return this.#semaphore.run(async () => {
      const connection = this.#connection.get();
      try {
        return await connection.use((client) => readCall(client, read, limits));
      } catch (error) {
        const failure = asUnavailable(error);
        if (failure instanceof EventStoreUnavailableError) this.#connection.discard(connection);
        throw failure;
      }
    });
  }

  /**
   * Reads `$all` with a filter. The server sends nothing until it finds an event, and may examine many events of other applications before.
   */
  search(read: LogRead): Promise<ReadResult> {
    return this.read(read, searchDeadlineFactor * this.#settings.deadlineMs);
  }

  /** Resolves after the reads under way. */
  async close(): Promise<void> {
    await this.#semaphore.idle();
    await this.#connection.close();
  }
}

interface ReadLimits {
  readonly maxBytes: number;
  readonly deadlineMs: number;
}

/** The events of one call, up to the bytes of a page. The rest is cancelled. */
function readCall(
  client: EventStoreDBClient,
  read: LogRead | StreamRead,
  { deadlineMs, maxBytes }: ReadLimits,
): Promise<ReadResult> {
  return new Promise((resolve, reject) => {
    const events: ServerEvent[] = [];
    let bytes = 0;
    let call: ReadCall | undefined;
    let isOver = false;
    // Reads have no deadline of their own. This one counts from the last message.
    const timer = setTimeout(
      () => fail(new EventStoreUnavailableError('the read was not answered in time')),
      deadlineMs,
    );
    const finish = (settle: () => void) => {
      clearTimeout(timer);
      if (!isOver) settle();
      isOver = true;
      call?.cancel();
    };
    const fail = (error: Error) => finish(() => reject(error));
    const take = (message: ReadMessage) => {
      if (isOver) return;
      timer.refresh();
      if (!('event' in message)) return;
      const { event } = message;
      events.push(event);
      bytes += event.data.length;
      if (bytes >= maxBytes) finish(() => resolve({ events, isLast: false }));
    };
    const end = () => finish(() => resolve({ events, isLast: events.length < read.maxCount }));
    makeReadCall(client, read, (made) => {
      call = made;
      made
        .on('data', take)
        .on('end', end)
        .on('error', (error) => fail(convertToCommandError(error)));
    }).then((made) => isOver && made.cancel(), fail);
  });
}
