import {
  createEventStoreDbEventStore,
  type EventStoreDbOptions,
} from '@token-vault/event-store/eventstoredb';
import { startPosition, type Position } from '@token-vault/event-store';
import type { EventStoreDbDouble } from '@token-vault/test-doubles/eventstoredb';
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
