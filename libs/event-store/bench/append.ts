/**
 * Appends a second from 1 and from 64 callers, and events a second of a replay and of a live subscription.
 * node libs/event-store/bench/append.ts <connection string> [seconds per part, 3 by default]
 * The connection string is that of an empty database, or an `esdb://…`: of a server, or of the double
 * (`node test/doubles/eventstoredb/main.ts`).
 */
import { randomUUID } from 'node:crypto';
import type { NewEvent } from '@token-vault/contracts';
import { createEventStoreDbEventStore } from '../src/eventstoredb/index.ts';
import { createEventStoreSchema, createPostgresEventStore } from '../src/postgres/index.ts';
import { startPosition, type EventStore } from '../src/index.ts';
import { asSuiteStore, noted, testRegistry, type SuiteStore } from '../src/contract-suite/test-events.ts';

const [url, seconds = '3'] = process.argv.slice(2);
if (!url) throw new Error('usage: node append.ts <connection string> [seconds]');
const store = asSuiteStore(await open(url));

async function open(connectionString: string): Promise<EventStore> {
  if (connectionString.startsWith('esdb'))
    return createEventStoreDbEventStore({ connectionString, registry: testRegistry });
  const connection = { connectionString };
  await createEventStoreSchema(connection);
  return createPostgresEventStore({ connection, registry: testRegistry });
}

/** About the size of a token's event with its sealed data. */
function bigNote(): NewEvent {
  return noted('x'.repeat(600));
}

async function measure(
  name: string,
  callers: number,
  call: (store: SuiteStore) => Promise<unknown>,
): Promise<void> {
  const end = performance.now() + Number(seconds) * 1_000;
  const cpu = process.cpuUsage();
  let calls = 0;
  await Promise.all(
    Array.from({ length: callers }, async () => {
      while (performance.now() < end) {
        await call(store);
        calls++;
      }
    }),
  );
  report(name, calls, Number(seconds) * 1_000, cpu);
}

function report(name: string, count: number, ms: number, since: NodeJS.CpuUsage): void {
  const { user, system } = process.cpuUsage(since);
  const perSecond = Math.round((count * 1_000) / ms);
  console.log(
    `${name}: ${perSecond}/s, ${((user + system) / count).toFixed(1)} µs of this process's CPU each`,
  );
}

const newStream = (to: SuiteStore) =>
  to.append(`token-${randomUUID()}.${randomUUID()}`, [bigNote()], 'no-stream');
await measure('1 caller, new streams', 1, newStream);
await measure('64 callers, new streams', 64, newStream);
await measure('64 callers, one stream, any', 64, (to) =>
  to.append('access-1.2026-01-01', [bigNote()], 'any'),
);
const streams = Array.from({ length: 64 }, () => `token-${randomUUID()}`);
await Promise.all(streams.map((stream) => store.append(stream, [bigNote()], 'no-stream')));
let next = 0;
await measure('64 callers, read a stream of one event', 64, async (from) => {
  for await (const event of from.readStream(streams[next++ % 64] as string)) void event;
});

for (const [name, subscribers] of [
  ['replay by one subscription', 1],
  ['replay by four subscriptions', 4],
] as const) {
  const start = performance.now();
  const cpu = process.cpuUsage();
  let events = 0;
  await Promise.all(
    Array.from({ length: subscribers }, async () => {
      for await (const batch of store.subscribe(startPosition, new AbortController().signal)) {
        events += batch.events.length;
        if (batch.isCaughtUp) break;
      }
    }),
  );
  report(name, events, performance.now() - start, cpu);
}
await store.close();
