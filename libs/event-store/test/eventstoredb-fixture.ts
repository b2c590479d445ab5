import { randomUUID } from 'node:crypto';
import {
  createEventStoreDbEventStore,
  type EventStoreDbOptions,
} from '@token-vault/event-store/eventstoredb';
import { parsePosition, startPosition, type Position } from '@token-vault/event-store';
import { binaryEvent, EventStoreDBClient } from '@eventstore/db-client';
import { startEventStoreDbDouble, type EventStoreDbDouble } from '@token-vault/test-doubles/eventstoredb';
import { hasDouble, startEventStoreDouble } from '@token-vault/test-support';
import { afterEach, beforeEach, expect, onTestFinished, vi } from 'vitest';
import {
  asSuiteStore,
  testRegistry,
  type SuiteBatch,
  type SuiteEvent,
  type SuiteStore,
} from '../src/contract-suite/test-events.ts';

/** Fails a test that leaves an unhandled rejection or a warning of Node. */
export function expectNothingUnhandled(): void {
  const heard = vi.fn();
  const kinds = ['unhandledRejection', 'uncaughtExceptionMonitor', 'warning'];
  beforeEach(() => {
    heard.mockClear();
    for (const kind of kinds) process.on(kind, heard);
  });
  afterEach(async () => {
    // Late answers and errors of the client come in later turns of the event loop.
    await new Promise(setImmediate);
    for (const kind of kinds) process.off(kind, heard);
    expect(heard.mock.calls).toEqual([]);
  });
}

export interface TestServer {
  readonly connectionString: string;
  /** Writes to a stream without the adapter. Gives the position. */
  write(stream: string, events: readonly Written[]): Promise<Position>;
  /** Writes events of another application. Gives the position of the last. */
  writeForeignEvents(count: number): Promise<Position>;
  /** The stream of each event, in the order of the log, without those of the server itself. */
  streams(): Promise<string[]>;
  stop(): Promise<void>;
}

interface Written {
  readonly id: string;
  readonly type: string;
  readonly data: object;
  readonly metadata: object;
}

/** A fresh server: of EVENTSTOREDB_SERVER, else the double. */
export async function startServer(): Promise<TestServer> {
  const server = hasDouble ? await doubleAsServer() : await startEventStoreDouble();
  const { connectionString } = server;
  const client = EventStoreDBClient.connectionString(connectionString);
  const encode = (part: object) => new TextEncoder().encode(JSON.stringify(part));
  async function write(stream: string, events: readonly Written[]): Promise<Position> {
    const encoded = events.map(({ data, metadata, ...event }) =>
      binaryEvent({ ...event, data: encode(data), metadata: encode(metadata) }),
    );
    const { position } = await client.appendToStream(stream, encoded);
    return parsePosition(String(position?.commit));
  }
  return {
    connectionString,
    write,
    writeForeignEvents: (count) =>
      write(
        'orders-1',
        Array.from({ length: count }, () => {
          return { id: randomUUID(), type: 'OrderPlaced', data: { order: 1 }, metadata: {} };
        }),
      ),
    async streams() {
      const streams: string[] = [];
      for await (const { event } of client.readAll())
        if (event && !event.streamId.startsWith('$')) streams.push(event.streamId);
      return streams;
    },
    async stop() {
      await client.dispose();
      await server.stop();
    },
  };
}

async function doubleAsServer() {
  const double = await startEventStoreDbDouble();
  return { connectionString: double.connectionString, stop: () => double.close() };
}

/** A store on the double's log, closed when the test ends. */
export function openOn(
  { connectionString }: Pick<EventStoreDbDouble, 'connectionString'>,
  options: Partial<EventStoreDbOptions> = {},
): SuiteStore {
  const store = createEventStoreDbEventStore({ connectionString, registry: testRegistry, ...options });
  onTestFinished(() => store.close());
  return asSuiteStore(store);
}

/** The texts of events. */
export async function collect(events: AsyncIterable<SuiteEvent>): Promise<unknown[]> {
  const collected: unknown[] = [];
  for await (const event of events) collected.push(event.data.text);
  return collected;
}

/** A subscription that runs until the test ends. */
export function follow(store: SuiteStore, after: Position = startPosition) {
  const abort = new AbortController();
  const batches: SuiteBatch[] = [];
  const run = async () => {
    for await (const batch of store.subscribe(after, abort.signal)) batches.push(batch);
  };
  const ended = run();
  ended.catch(() => undefined);
  onTestFinished(() => abort.abort());
  return {
    batches,
    ended,
    texts: () => batches.flatMap(({ events }) => events.map((event) => event.data.text)),
  };
}
