import {
  cardToken,
  createDataDirectory,
  createTestPool,
  plainApplication,
  removeDataDirectory,
  spawnStandalone,
  startStandaloneProcess,
  waitUntil,
} from '@token-vault/test-support';
import { existsSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

interface Made {
  readonly id: string;
  readonly key: string;
}

let dataDir: string;

beforeAll(async () => {
  dataDir = await createDataDirectory();
});
afterAll(() => removeDataDirectory(dataDir));

async function killWhen(moment: () => Promise<unknown>): Promise<void> {
  const vault = spawnStandalone({ dataDir });
  let isOver = false;
  void vault.exited.then(() => (isOver = true));
  await Promise.race([moment(), vault.exited]);
  expect({ isOver, output: vault.output() }).toMatchObject({ isOver: false });
  vault.signal('SIGKILL');
  await vault.exited;
}

const isThere = (name: string) => existsSync(path.join(dataDir, name));
const hasUnfinished = () =>
  isThere('postgres') &&
  readdirSync(path.join(dataDir, 'postgres')).some((name) => name.startsWith('unfinished-'));

/** All tests use one directory: each start finds what the killed start before it left. */
describe('a first start that is killed', () => {
  it.each([50, 300])('after %d ms leaves no state that prevents the next one', async (ms) => {
    await killWhen(() => sleep(ms));
  });

  it.each([
    ['while the database is being made', hasUnfinished],
    ['as soon as there is a database', () => isThere('postgres/cluster')],
    ['while Postgres starts', () => isThere('postgres/cluster/data/postmaster.pid')],
    ['as soon as there is a root key', () => isThere('root.key')],
    ['before the first tenant is made', () => isThere('credentials.json.pending')],
  ])('%s leaves nothing that stops the next one', async (_moment, condition) => {
    await killWhen(() => waitUntil(condition, { timeoutMs: 30_000 }));
    expect(isThere('credentials.json')).toBe(false);
  });

  it('in the middle of the first tenant is completed by the next one', async () => {
    // The file with the tenant's id stays until the credentials are written, so each of these starts continues the
    // same creation.
    for (const ms of [0, 150, 300, 450]) {
      if (isThere('credentials.json')) break;
      await killWhen(async () => {
        await waitUntil(() => isThere('postgres/cluster/data/postmaster.pid'), { timeoutMs: 30_000 });
        await sleep(ms);
      });
    }
    const vault = await startStandaloneProcess({ dataDir });
    expect(statSync(path.join(dataDir, 'credentials.json')).mode & 0o777).toBe(0o600);
    expect(isThere('credentials.json.pending')).toBe(false);

    const { body } = await vault
      .client()
      .expect<Made>(201, 'POST', '/applications', { body: plainApplication() });
    const backend = vault.client(body.key);
    const card = await backend.expect<Made>(201, 'POST', '/tokens', { body: cardToken() });
    await backend.expect(200, 'GET', `/tokens/${card.body.id}`);

    const pool = createTestPool(await vault.databaseUrl());
    const { rows } = await pool.query<{ type: string; count: number }>(
      `select type, count(*)::integer as count from event_store.event
       where type in ('TenantCreated', 'ApplicationCreated') group by type order by type`,
    );
    await pool.end();
    // The management application and the one that the test creates.
    expect(rows).toEqual([
      { type: 'ApplicationCreated', count: 2 },
      { type: 'TenantCreated', count: 1 },
    ]);
    expect(await vault.stop()).toEqual({ code: 0, signal: null });
  });
});
