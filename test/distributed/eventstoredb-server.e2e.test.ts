import { eventRegistry, type VaultEvent } from '@token-vault/contracts';
import { startPosition, type EventStore } from '@token-vault/event-store';
import { createEventStoreDbEventStore } from '@token-vault/event-store/eventstoredb';
import { createDataDirectory, removeDataDirectory, startEventStoreDouble } from '@token-vault/test-support';
import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import path from 'node:path';
import { expect, it, onTestFinished, vi } from 'vitest';

const program = path.join(import.meta.dirname, '../doubles/eventstoredb/server');

const tenantId = randomUUID();
const tenantDeleted = (): VaultEvent => ({
  id: randomUUID(),
  type: 'TenantDeleted',
  version: 1,
  data: { tenant_id: tenantId },
  metadata: {
    tenant_id: tenantId,
    actor: { kind: 'system', id: 'test' },
    trace_id: 'trace',
    correlation_id: 'correlation',
    occurred_at: '2026-01-01T00:00:00.000Z',
  },
});

it('a program of EVENTSTOREDB_SERVER gives the suites their server, which they may kill, start again, and copy', async () => {
  vi.stubEnv('EVENTSTOREDB_SERVER', program);
  const dataDir = await createDataDirectory();
  onTestFinished(async () => {
    vi.unstubAllEnvs();
    await removeDataDirectory(dataDir);
  });
  const copy = path.join(dataDir, 'copy');
  const server = await startEventStoreDouble();
  const within = async <Result>(work: (store: EventStore) => Promise<Result>) => {
    const { connectionString } = server;
    const store = createEventStoreDbEventStore({ registry: eventRegistry, connectionString });
    return work(store).finally(() => store.close());
  };
  const head = () => within((store) => store.head());
  const append = () => within((store) => store.append('a', [tenantDeleted()], 'any'));
  expect(await head()).toBe(startPosition);
  const { position } = await append();
  await server.tell(`save ${copy}`);
  await server.tell('down');
  await expect(head()).rejects.toThrow('unavailable');
  await server.tell('up');
  expect(await head()).toBe(position);
  await append();
  expect(await head()).not.toBe(position);
  await server.tell(`load ${copy}`);
  expect(await head()).toBe(position);
  await expect(server.tell('freeze')).rejects.toThrow('EVENTSTOREDB_SERVER');
  await server.stop();
  await expect(head()).rejects.toThrow('unavailable');
});

it('the program names the wrong argument', () => {
  for (const given of [[], ['start', 'a'], ['stop', 'nobody']])
    expect(() => execFileSync(program, given, { stdio: 'pipe' })).toThrow();
});
