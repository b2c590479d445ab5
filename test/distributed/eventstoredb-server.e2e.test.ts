import { eventRegistry } from '@token-vault/contracts';
import { startPosition } from '@token-vault/event-store';
import { createEventStoreDbEventStore } from '@token-vault/event-store/eventstoredb';
import { startEventStoreDouble } from '@token-vault/test-support';
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { expect, it, onTestFinished, vi } from 'vitest';

const program = path.join(import.meta.dirname, '../doubles/eventstoredb/server');

it('a program of EVENTSTOREDB_SERVER gives the suites their server, which they may end and start again', async () => {
  vi.stubEnv('EVENTSTOREDB_SERVER', program);
  onTestFinished(() => void vi.unstubAllEnvs());
  const server = await startEventStoreDouble();
  const head = async () => {
    const { connectionString } = server;
    const store = createEventStoreDbEventStore({ registry: eventRegistry, connectionString });
    try {
      return await store.head();
    } finally {
      await store.close();
    }
  };
  expect(await head()).toBe(startPosition);
  await server.tell('down');
  await expect(head()).rejects.toThrow('unavailable');
  await server.tell('up');
  expect(await head()).toBe(startPosition);
  await expect(server.tell('freeze')).rejects.toThrow('EVENTSTOREDB_SERVER');
  await server.stop();
  await expect(head()).rejects.toThrow('unavailable');
});

it('the program names the wrong argument', () => {
  for (const given of [[], ['start', 'a'], ['stop', 'nobody']])
    expect(() => execFileSync(program, given, { stdio: 'pipe' })).toThrow();
});
