import { eventRegistry, newEvent, newId, streams, TransactionCommitted } from '@token-vault/contracts';
import { expect, it } from 'vitest';
import { readEntity, type EventStore, type ReadStreamOptions } from '../src/index.ts';
import { createMemoryEventStore } from '../src/memory/index.ts';

const tenantId = '00000000-0000-4000-8000-000000000001';
const transactionId = '00000000-0000-4000-8000-0000000000aa';
const stream = streams.transaction(tenantId, transactionId);

/** Reads the revisions of a stream of five events, of which an attacker has taken some away. */
async function read(options: ReadStreamOptions, missing: readonly number[] = []): Promise<number[]> {
  const log = createMemoryEventStore({ registry: eventRegistry });
  const actor = { kind: 'system', id: 'test' } as const;
  const ids = { trace_id: 't', correlation_id: 't', occurred_at: '2030-01-01T00:00:00.000Z' };
  const metadata = { tenant_id: tenantId, actor, ...ids };
  const event = () =>
    newEvent(TransactionCommitted, { transaction_id: transactionId }, { id: newId(), metadata });
  await log.append(stream, Array.from({ length: 5 }, event), 'no-stream');
  const store: Pick<EventStore, 'readStream'> = {
    async *readStream(...range) {
      for await (const each of log.readStream(...range)) if (!missing.includes(each.revision)) yield each;
    },
  };
  const revisions: number[] = [];
  for await (const { revision } of readEntity(store, stream, options)) revisions.push(revision);
  return revisions;
}

it('the events of an entity are read in either direction, from any revision', async () => {
  expect(await read({})).toEqual([0, 1, 2, 3, 4]);
  expect(await read({ from: 3 })).toEqual([3, 4]);
  expect(await read({ backwards: true, maxCount: 2 })).toEqual([4, 3]);
  expect(await read({ backwards: true, from: 1 })).toEqual([1, 0]);
});

it.each([
  ['the first', {}, 0],
  ['one between others', {}, 2],
  ['the first of those that are read', { from: 3 }, 3],
  ['one between others, backwards', { backwards: true }, 2],
  ['the first of those that are read, backwards', { backwards: true, from: 3 }, 3],
])('are refused when one is missing: %s', async (_what, options, missing) => {
  await expect(read(options, [missing])).rejects.toMatchObject({ code: 'record_altered' });
});
