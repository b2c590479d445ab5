import { FingerprintClaimed, newId, type VaultEvent } from '@token-vault/contracts';
import { createKeyRing, environmentRootKey, type KeyRing } from '@token-vault/crypto';
import { KeysNotStoredError, type EventStore, type RecordedEvent } from '@token-vault/event-store';
import { keyDurability, openEventStore, schema, type DataSettings } from '@token-vault/processes';
import { migrate } from '@token-vault/processes/migrations';
import { systemClock } from '@token-vault/operations';
import {
  createDataDirectory,
  createTestPool,
  removeDataDirectory,
  waitUntil,
} from '@token-vault/test-support';
import { randomBytes } from 'node:crypto';
import type { Pool } from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startEmbeddedPostgres, type EmbeddedPostgres } from '@token-vault/embedded-postgres';

const tenantId = '00000000-0000-4000-8000-000000000001';

let directory: string;
let postgres: EmbeddedPostgres;
let pool: Pool;
let keyRing: KeyRing;
let store: EventStore;

beforeAll(async () => {
  directory = await createDataDirectory();
  // The users' settings, except for the process that flushes asynchronous commits: it would flush too early too
  // often.
  const settings = { wal_writer_delay: '10s' };
  postgres = await startEmbeddedPostgres({ dataDir: `${directory}/postgres`, settings });
  await migrate(postgres.url, schema);
  const data: DataSettings = { databaseUrl: postgres.url, eventStore: { kind: 'postgres' } };
  pool = createTestPool(postgres.url);
  const rootKey = environmentRootKey(randomBytes(32).toString('hex'));
  keyRing = await createKeyRing({ pool, rootKey, clock: systemClock, durability: keyDurability(data) });
  await keyRing.createTenantKeys(tenantId);
  store = await openEventStore(data, { storage: { requireSpace: () => undefined } });
  await store.append('before', [event()], 'no-stream');
});
afterAll(async () => {
  await store.close();
  await pool.end();
  await postgres.stop();
  await removeDataDirectory(directory);
});

function event(): VaultEvent {
  return {
    id: newId(),
    type: 'FingerprintClaimed',
    version: FingerprintClaimed.version,
    data: { fingerprint: 'f', token_id: 't' },
    metadata: {
      tenant_id: tenantId,
      actor: { kind: 'system', id: 'test' },
      occurred_at: new Date().toISOString(),
      correlation_id: 'test',
      trace_id: 'test',
    },
  };
}

async function storeKey(): Promise<string> {
  const { key, stored } = await keyRing.createDataKey({ tenantId, entity: 'token:t', purpose: 'data' });
  await stored;
  return key.id;
}

async function isStored(keyId: string): Promise<boolean> {
  return (await pool.query('select from key_ring.data_key where id = $1', [keyId])).rowCount === 1;
}

async function eventsOf(stream: string): Promise<RecordedEvent[]> {
  const events: RecordedEvent[] = [];
  for await (const each of store.readStream(stream)) events.push(each);
  return events;
}

/** When one session is killed, Postgres ends all sessions and recovers what was flushed. */
async function crash(): Promise<void> {
  const [victim, witness] = await Promise.all([pool.connect(), pool.connect()]);
  const lost = [victim, witness].map((client) => new Promise((resolve) => client.once('error', resolve)));
  const { rows } = await victim.query<{ pid: number }>('select pg_backend_pid() as pid');
  const [{ pid }] = rows as [{ pid: number }];
  process.kill(pid, 'SIGKILL');
  // Postgres has noticed the kill when the other sessions end too.
  await Promise.all(lost);
  for (const client of [victim, witness]) client.release(true);
  const isBack = () => pool.query('select');
  await waitUntil(isBack, { timeoutMs: 30_000, what: 'the recovery of Postgres' });
}

async function lostKey(): Promise<string> {
  for (;;) {
    const keyId = await storeKey();
    await crash();
    if (!(await isStored(keyId))) return keyId;
  }
}

it('no event is appended whose key was lost in a crash', async () => {
  const lost = await lostKey();
  const keys = [await storeKey(), lost];
  const appends = await Promise.allSettled([
    store.append('lost', [event()], 'no-stream', { keys }),
    store.append('kept', [event()], 'no-stream', { keys: [await storeKey()] }),
    store.append('none', [event()], 'any'),
  ]);
  expect(appends).toMatchObject([
    { status: 'rejected', reason: new KeysNotStoredError() },
    { status: 'fulfilled' },
    { status: 'fulfilled' },
  ]);
  expect(await eventsOf('lost')).toEqual([]);
  expect(await eventsOf('kept')).toHaveLength(1);
});

it('an append that is acknowledged has its key, also after a crash', async () => {
  const key = await storeKey();
  await store.append('durable', [event()], 'no-stream', { keys: [key] });
  await crash();
  expect(await isStored(key)).toBe(true);
  expect(await eventsOf('durable')).toHaveLength(1);
});

it('a key that was stored without an event survives a crash', async () => {
  const request = { tenantId, entity: 'idempotent:1', purpose: 'answer', durability: 'own' } as const;
  const { key, stored } = await keyRing.createDataKey(request);
  await stored;
  await crash();
  expect(await isStored(key.id)).toBe(true);
});
