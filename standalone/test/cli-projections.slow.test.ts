import { projections } from '@token-vault/projectors';
import {
  cardToken,
  createDataDirectory,
  createTestPool,
  plainApplication,
  removeDataDirectory,
  resultOf,
  runCommand,
  startCommand,
  startStandaloneProcess,
  waitUntil,
  type Client,
  type StandaloneProcess,
} from '@token-vault/test-support';
import type { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';

// Each command is a process of its own. There are many of them, beside a load, on a busy machine.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

let dataDir: string;
let vault: StandaloneProcess;
let pool: Pool;
let client: Client;

beforeAll(async () => {
  dataDir = await createDataDirectory();
  vault = await startStandaloneProcess({ dataDir });
  pool = createTestPool(await vault.databaseUrl());
  const made = await vault
    .client()
    .expect<{ key: string }>(201, 'POST', '/applications', { body: plainApplication() });
  client = vault.client(made.body.key);
  for (let batch = 0; batch < 4; batch++) await Promise.all(Array.from({ length: 25 }, createToken));
});
afterAll(async () => {
  await pool.end();
  await removeDataDirectory(dataDir);
});

const createToken = async () =>
  (await client.expect<{ id: string }>(201, 'POST', '/tokens', { body: cardToken() })).body.id;

const generationOf = async (name: string): Promise<number> => {
  const { rows } = await pool.query<{ generation: number }>(
    'select generation from projections.checkpoint where name = $1',
    [name],
  );
  return rows[0]?.generation ?? 0;
};

/** Creates and reads tokens without a pause until stopped. Any unexpected answer fails the test. */
function startLoad(): { stop(): Promise<number> } {
  let isStopped = false;
  const workers = Array.from({ length: 2 }, async () => {
    let count = 0;
    for (; !isStopped; count++) await client.expect(200, 'GET', `/tokens/${await createToken()}`);
    return count;
  });
  const done = Promise.all(workers);
  // `stop` reports a failure.
  done.catch(() => undefined);
  return {
    async stop() {
      isStopped = true;
      return (await done).reduce((sum, count) => sum + count, 0);
    },
  };
}

describe('projections of a running vault', () => {
  it('are listed with their position in the log', async () => {
    const lines = (await resultOf(dataDir, 'projections', 'status', '--json')).trim().split('\n');
    const statuses = lines.map((line) => JSON.parse(line) as { name: string; status: string; head: string });
    expect(statuses.map(({ name }) => name)).toContain('tokens');
    expect(statuses.every(({ status }) => status === 'live')).toBe(true);
    expect(BigInt(statuses[0]?.head ?? '0')).toBeGreaterThan(100n);
    expect(await resultOf(dataDir, 'projections', 'status')).toMatch(/^tokens +\d+ +live +\d+ +\d+$/m);
  });

  it('are all rebuilt while requests continue, with their rate', async () => {
    const before = await generationOf('tokens');
    const load = startLoad();
    const { code, stdout, stderr } = await runCommand(dataDir, ['projections', 'rebuild', '--all']);
    expect(await load.stop()).toBeGreaterThan(0);
    expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toContain('tokens: rebuilt\n');
    expect(stderr).toMatch(/rebuild tokens .*100 % .* events .*\/s/);
    expect(await generationOf('tokens')).toBe(before + 1);
    expect(await resultOf(dataDir, 'projections', 'verify', 'tokens')).toMatch(
      /^tokens: \d+ rows in \d+ tables are/,
    );
  });

  it('that hold a row the log does not give are found', async () => {
    await pool.query('create table planted as select * from rm_log.entry limit 1');
    await pool.query(
      'delete from rm_log.entry e using planted p where (e.seq, e.ordinal) = (p.seq, p.ordinal)',
    );
    const lacking = await runCommand(dataDir, ['projections', 'verify', 'log']);
    expect(lacking).toMatchObject({ code: 1, stdout: '' });
    expect(lacking.stderr).toMatch(
      /^vault: log is not what the log gives: entry has 0 rows too many and lacks 1 .+\n$/m,
    );
    const all = await runCommand(dataDir, ['projections', 'verify', '--all']);
    expect(all).toMatchObject({ code: 1 });
    expect(all.stderr).toMatch(/^vault: log is not what the log gives: [^;]+\n$/m);
    expect(all.stdout.trim().split('\n')).toHaveLength(projections.length - 1);
    await resultOf(dataDir, 'projections', 'rebuild', 'log');
    expect((await resultOf(dataDir, 'projections', 'verify', '--all')).trim().split('\n')).toHaveLength(
      projections.length,
    );
  });

  it('are paused and resumed', async () => {
    expect(await resultOf(dataDir, 'projections', 'pause', 'tokens')).toBe(
      'tokens: live projection paused\n',
    );
    expect(await runCommand(dataDir, ['projections', 'pause', 'tokens'])).toMatchObject({ code: 1 });
    const id = await createToken();
    expect(await resultOf(dataDir, 'projections', 'resume', 'tokens')).toBe(
      'tokens: live projection resumed\n',
    );
    await waitUntil(async () => (await client.request('GET', `/tokens/${id}`)).status === 200);
  });

  it('that do not exist are named', async () => {
    const { code, stderr } = await runCommand(dataDir, ['projections', 'rebuild', 'nothing']);
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: 'vault: there is no projection "nothing" to rebuild\n',
    });
    const neither = await runCommand(dataDir, ['projections', 'rebuild']);
    expect(neither.stderr).toBe('vault: give the name of a projection, or --all\n');
  });
});

describe('a rebuild', () => {
  const rebuildOf = async (name: string) =>
    (await pool.query<{ status: string }>('select status from projections.rebuild where name = $1', [name]))
      .rows[0];

  /** Holds the live read model, so that a rebuild cannot finish. */
  async function withLiveHeld(work: () => Promise<void>): Promise<void> {
    const holder = await pool.connect();
    await holder.query(`begin; select from projections.checkpoint where name = 'tokens' for no key update`);
    try {
      await work();
    } finally {
      await holder.query('rollback');
      holder.release();
    }
  }

  it('that is interrupted is continued by the next', async () => {
    const before = await generationOf('tokens');
    await withLiveHeld(async () => {
      const command = startCommand(dataDir, ['projections', 'rebuild', 'tokens']);
      await waitUntil(() => rebuildOf('tokens'), { timeoutMs: 60_000 });
      command.signal('SIGKILL');
      await command.ended;
    });
    expect(await rebuildOf('tokens')).toBeDefined();
    expect(await resultOf(dataDir, 'projections', 'rebuild', 'tokens')).toBe('tokens: rebuilt\n');
    expect(await generationOf('tokens')).toBe(before + 1);
  });

  it('that was abandoned is cancelled, and the live read model stays', async () => {
    const before = await generationOf('tokens');
    await withLiveHeld(async () => {
      const command = startCommand(dataDir, ['projections', 'rebuild', 'tokens']);
      await waitUntil(() => rebuildOf('tokens'), { timeoutMs: 60_000 });
      command.signal('SIGKILL');
      await command.ended;
    });
    expect(await resultOf(dataDir, 'projections', 'cancel', 'tokens')).toBe('tokens: rebuild cancelled\n');
    expect(await rebuildOf('tokens')).toBeUndefined();
    expect(await generationOf('tokens')).toBe(before);
    expect(await runCommand(dataDir, ['projections', 'cancel', 'tokens'])).toMatchObject({ code: 1 });
  });
});
