import type { EventStoreDBClient } from '@eventstore/db-client';
import { convertToCommandError } from '@eventstore/db-client/dist/utils/CommandError.js';
import { EventStoreUnavailableError } from '../port.ts';
import { LastingConnection, type ConnectionSettings } from './connection.ts';
import { asUnavailable } from './errors.ts';
import { Gate } from './gate.ts';
import { makeReadCall, type LogRead, type ReadCall, type StreamRead } from './read-call.ts';
import type { ReadMessage } from './read-message.ts';
import type { ServerEvent } from './server-event.ts';

export interface ServerCallSettings extends ConnectionSettings {
  /** Maximum number of concurrent reads, of the 100 calls that the server allows on a connection. */
  readonly maxConcurrentReads: number;
  /** Maximum bytes of data of a read, plus at most one event: the rest of the call is cancelled. */
  readonly maxPageBytes: number;
}

export interface Drained {
  readonly events: readonly ServerEvent[];
  /** No event followed at the moment of reading. */
  readonly isLast: boolean;
}

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

  /** @throws EventStoreUnavailableError */
  read(read: LogRead | StreamRead, deadlineMs = this.#settings.deadlineMs): Promise<Drained> {
    const limits = { deadlineMs, maxBytes: this.#settings.maxPageBytes };
    return this.#gate.pass(async () => {
      const connection = this.#connection.get();
      try {
        return await connection.use((client) => drain(client, read, limits));
      } catch (error) {
        const failure = asUnavailable(error);
        if (failure instanceof EventStoreUnavailableError) this.#connection.discard(connection);
        throw failure;
      }
    });
  }

  /** Reads `$all` where many events of other applications may lie in between: the server sends nothing until it finds an event. */
  search(read: LogRead): Promise<Drained> {
    return this.read(read, searchPatience * this.#settings.deadlineMs);
  }

  /** Resolves after the reads under way. */
  async close(): Promise<void> {
    await this.#gate.idle();
    await this.#connection.close();
  }
}

interface DrainLimits {
  readonly maxBytes: number;
  readonly deadlineMs: number;
}

/** The events of one call, up to the bytes of a page. The rest is cancelled. */
function drain(
  client: EventStoreDBClient,
  read: LogRead | StreamRead,
  { deadlineMs, maxBytes }: DrainLimits,
): Promise<Drained> {
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
