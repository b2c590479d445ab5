import { execFileSync, spawn } from 'node:child_process';
import { chmod, mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createTestPool, waitUntil } from '@token-vault/test-support';
import {
  type EmbeddedPostgres,
  type EmbeddedPostgresOptions,
  startEmbeddedPostgres,
  StartError,
} from '../src/index.ts';
import { postgresProcessesOf, processIdentity } from '../src/processes.ts';

let directory: string;
let dataDir: string;
let running: EmbeddedPostgres[];
let template: string;
let isFirstStart: boolean;

beforeAll(async () => {
  template = await mkdtemp(path.join(tmpdir(), 'supervisor-template-'));
  await chmod(template, 0o711);
  const postgres = await startEmbeddedPostgres({ dataDir: template, settings: { fsync: false } });
  await postgres.stop();
});

afterAll(() => rm(template, { recursive: true, force: true }));

beforeEach(async () => {
  isFirstStart = false;
  directory = await mkdtemp(path.join(tmpdir(), 'supervisor-'));
  await chmod(directory, 0o711);
  dataDir = path.join(directory, 'postgres');
  running = [];
});

afterEach(async () => {
  await Promise.all(running.map((postgres) => postgres.stop()));
  await rm(directory, { recursive: true, force: true });
});

// Without fsync, a test takes a second. Another test checks that the default is durable.
async function start(options: Partial<EmbeddedPostgresOptions> = {}): Promise<EmbeddedPostgres> {
  if (!isFirstStart) await copyTemplate();
  const postgres = await startEmbeddedPostgres({ dataDir, settings: { fsync: false }, ...options });
  running.push(postgres);
  return postgres;
}

async function query(postgres: EmbeddedPostgres, sql: string): Promise<Record<string, unknown>[]> {
  const pool = createTestPool(postgres.url);
  try {
    return (await pool.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await pool.end();
  }
}

/** Saves most tests the second that initdb takes. */
async function copyTemplate(): Promise<void> {
  await mkdir(dataDir, { recursive: true });
  if (await stat(path.join(dataDir, 'cluster')).catch(() => undefined)) return;
  execFileSync('cp', ['-Rp', path.join(template, 'cluster'), path.join(dataDir, 'cluster')]);
}

/** A vault in a process of its own, which can be killed. Resolves with Postgres' pid when it is up. */
async function vaultProcess(): Promise<{ vault: number; postgres: number; kill(): Promise<void> }> {
  await copyTemplate();
  const module = path.resolve(import.meta.dirname, '../src/index.ts');
  const code = `const { startEmbeddedPostgres } = await import(${JSON.stringify(module)});
    const { pid } = await startEmbeddedPostgres({ dataDir: ${JSON.stringify(dataDir)}, settings: { fsync: false } });
    console.log(pid);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const postgres = await new Promise<number>((resolve, reject) => {
    child.stdout.once('data', (text: Buffer) => resolve(Number(text.toString())));
    child.once('exit', () => reject(new Error('the vault process ended')));
  });
  const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const kill = async () => {
    child.kill('SIGKILL');
    await gone;
  };
  return { vault: child.pid ?? -1, postgres, kill };
}

/** Kills the watchdog, as if the machine had no shell. */
function killWatchdogOf(postmaster: number): void {
  const found = execFileSync('pgrep', ['-f', `^/bin/sh -c read.* ${postmaster}$`], { encoding: 'utf8' });
  for (const pid of found.trim().split('\n')) process.kill(Number(pid), 'SIGKILL');
}

/** A zombie is not alive: in a container without an init, it may never be reaped. */
async function isAlive(pid: number): Promise<boolean> {
  return (await processIdentity(pid)) !== undefined;
}

describe('the embedded Postgres', () => {
  it('keeps its data after a restart, ordered by code point, with checksums and flushes', async () => {
    isFirstStart = true;
    const first = await start({ settings: {} });
    const settings = `select current_setting('data_checksums') as checksums, current_setting('fsync') as fsync,
      current_setting('full_page_writes') as full, current_setting('server_encoding') as encoding, 'Z' < 'a' as ordered`;
    expect(await query(first, settings)).toEqual([
      { checksums: 'on', fsync: 'on', full: 'on', encoding: 'UTF8', ordered: true },
    ]);
    await query(first, 'create table kept as select 1 as n');
    await Promise.all([first.stop(), first.stop()]);
    expect(await isAlive(first.pid)).toBe(false);
    expect(await query(await start({ settings: {} }), 'select n from kept')).toEqual([{ n: 1 }]);
  });

  it('refuses a wrong password, and keeps the right one from other users', async () => {
    const postgres = await start();
    const url = new URL(postgres.url);
    url.searchParams.set('password', 'guess');
    await expect(query({ ...postgres, url: url.href }, 'select 1')).rejects.toThrow(
      'password authentication failed',
    );
    expect((await stat(path.join(dataDir, 'cluster', 'password'))).mode & 0o777).toBe(0o600);
    expect((await stat(path.join(dataDir, 'cluster'))).mode & 0o777).toBe(0o700);
    expect((await stat(path.join(dataDir, 'socket'))).mode & 0o777).toBe(0o700);
  });

  it('writes no data into its log, even of statements that fail', async () => {
    const lines: string[] = [];
    const log = (_: object, message: string) => void lines.push(message);
    const postgres = await start({ logger: { debug: log, info: log, warn: log, error: log } });
    const canary = 'c4111111111111111';
    await expect(query(postgres, `select '${canary}'::uuid`)).rejects.toThrow(canary);
    await query(postgres, `create table card (number text unique); insert into card values ('${canary}')`);
    await expect(query(postgres, `insert into card values ('${canary}')`)).rejects.toThrow('duplicate key');
    await expect(query(postgres, `do $$ begin raise warning '${canary}'; end $$`)).resolves.toBeDefined();
    await postgres.stop();
    expect(lines.join('\n')).toContain('database system is ready');
    expect(lines.join('\n')).not.toContain(canary);
  });

  it('works in a directory whose path is too long for a socket and has special characters', async () => {
    dataDir = path.join(directory, 'ä "quoted", dir', 'x'.repeat(100));
    const postgres = await start();
    expect(await query(postgres, 'select 1 as n')).toEqual([{ n: 1 }]);
  });

  it('does not receive the Ctrl-C of the terminal, because it has its own process group', async () => {
    const { pid } = await start();
    expect(execFileSync('ps', ['-o', 'pgid=', '-p', String(pid)], { encoding: 'utf8' }).trim()).toBe(
      String(pid),
    );
  });

  it('reports when it ends on its own, and starts again with the committed data', async () => {
    const first = await start();
    await query(first, 'create table kept as select 1 as n');
    const exit = new Promise((resolve) => first.onExit(resolve));
    process.kill(first.pid, 'SIGKILL');
    expect(await exit).toEqual({ code: null, signal: 'SIGKILL' });
    expect(await query(await start(), 'select n from kept')).toEqual([{ n: 1 }]);
    await first.stop();
  });

  it.each([false, true])(
    'ends while it starts, and starts again (its process is there: %s)',
    async (isThere) => {
      await copyTemplate();
      const data = path.join(dataDir, 'cluster/data');
      const stopping = new AbortController();
      // A standby that answers no queries never gets ready. A recovery may take as long.
      const mark = path.join(data, 'standby.signal');
      await writeFile(mark, '');
      const settings = { fsync: false, hot_standby: false };
      const refused = expect(start({ signal: stopping.signal, settings })).rejects.toBeInstanceOf(StartError);
      if (isThere)
        await waitUntil(async () => {
          const [pid] = await postgresProcessesOf(data);
          if (pid !== undefined) process.kill(pid, 'SIGSTOP');
          return pid !== undefined;
        });
      stopping.abort();
      await refused;
      expect(await postgresProcessesOf(data)).toEqual([]);
      await rm(mark);
      await start();
    },
  );

  it('does not report a requested end', async () => {
    const postgres = await start();
    let told = false;
    postgres.onExit(() => (told = true));
    await postgres.stop();
    expect(told).toBe(false);
  });
});

describe('a vault that was killed', () => {
  it('ends with its Postgres', async () => {
    const vault = await vaultProcess();
    await vault.kill();
    await waitUntil(async () => !(await isAlive(vault.postgres)), { what: 'the end of Postgres' });
  });

  it('may leave an orphaned Postgres, which the next start stops before it starts its own', async () => {
    const vault = await vaultProcess();
    killWatchdogOf(vault.postgres);
    await vault.kill();
    expect(await isAlive(vault.postgres)).toBe(true);
    const next = await start();
    expect(await isAlive(vault.postgres)).toBe(false);
    expect(await query(next, 'select 1 as n')).toEqual([{ n: 1 }]);
  });

  it('in the middle of its first start leaves no directory that the next start treats as a cluster', async () => {
    const module = path.resolve(import.meta.dirname, '../src/index.ts');
    const code = `const { startEmbeddedPostgres } = await import(${JSON.stringify(module)});
      await startEmbeddedPostgres({ dataDir: ${JSON.stringify(dataDir)}, settings: { fsync: false } });`;
    isFirstStart = true;
    const child = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: 'inherit' });
    const unfinished = await waitUntil(() => {
      const found = execFileSync('sh', ['-c', 'ls -d "$1"/unfinished-*/data/base', 'sh', dataDir], {
        stdio: ['ignore', 'pipe', 'ignore'],
      });
      return path.dirname(path.dirname(found.toString().trim()));
    });
    child.kill('SIGKILL');
    expect(await query(await start(), 'select 1 as n')).toEqual([{ n: 1 }]);
    await waitUntil(() =>
      stat(unfinished).then(
        () => false,
        () => true,
      ),
    );
  });
});

describe('lock files', () => {
  it('of a killed run with a pid that another process has now do not prevent a start', async () => {
    await (await start()).stop();
    const stranger = String(process.pid);
    const data = path.join(dataDir, 'cluster', 'data');
    const { uid, gid } = await stat(data);
    await writeFile(
      path.join(data, 'postmaster.pid'),
      `${stranger}\n${data}\n1\n5432\n${dataDir}/socket\n\n\n`,
    );
    await mkdir(path.join(dataDir, 'socket'), { recursive: true });
    await writeFile(
      path.join(dataDir, 'socket', '.s.PGSQL.5432.lock'),
      `${stranger}\n${data}\n1\n5432\n${dataDir}/socket\n`,
    );
    execFileSync('chown', ['-R', `${uid}:${gid}`, data, path.join(dataDir, 'socket')]);
    expect(await query(await start(), 'select 1 as n')).toEqual([{ n: 1 }]);
  });

  it('refuse a second vault beside a running one, which continues', async () => {
    const vault = await vaultProcess();
    await expect(start()).rejects.toThrow(`is in use by another vault (process ${vault.vault})`);
    expect(await isAlive(vault.postgres)).toBe(true);
    await vault.kill();
  });

  it('let one of many starting vaults run after a vault was killed; all others are refused', async () => {
    const vault = await vaultProcess();
    await vault.kill();
    const starts = await Promise.allSettled([1, 2, 3, 4, 5].map(() => start()));
    const refused = starts.filter((result) => result.status === 'rejected');
    expect(refused).toHaveLength(4);
    for (const { reason } of refused)
      expect((reason as Error).message).toContain('is in use by another vault');
  });
});

describe('a problem for the operator', () => {
  const oneLine = (pattern: RegExp) => (error: unknown) => {
    expect(error).toBeInstanceOf(StartError);
    expect((error as StartError).message).toMatch(pattern);
    expect((error as StartError).message).not.toContain('\n');
  };

  it('root without an account to run Postgres as', async () => {
    isFirstStart = true;
    const accounts = [{ name: 'daemon', uid: 1, gid: 1 }];
    await start({ identity: { uid: 0, accounts } }).catch(
      oneLine(/^running as root without a usable account: .* run the vault as/),
    );
    expect.hasAssertions();
  });

  it('root with a data directory that the account may not enter', async () => {
    isFirstStart = true;
    await chmod(directory, 0o700);
    const accounts = [{ name: 'nobody', uid: 65_534, gid: 65_534 }];
    await start({ identity: { uid: 0, accounts } }).catch(
      oneLine(/"nobody", who may not enter .*supervisor-.*; choose/),
    );
    expect.hasAssertions();
  });

  it('a file where the data directory should be', async () => {
    isFirstStart = true;
    await writeFile(dataDir, '');
    await start().catch(oneLine(/postgres cannot be used: /));
    expect.hasAssertions();
  });

  it('a port that is taken', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => taken.once('listening', resolve));
    const { port } = taken.address() as { port: number };
    await start({ port }).catch(oneLine(/could not bind .*Address already in use/));
    expect.hasAssertions();
    taken.close();
  });

  it('a cluster of another Postgres version', async () => {
    await (await start()).stop();
    await writeFile(path.join(dataDir, 'cluster', 'data', 'PG_VERSION'), '9\n');
    await start().catch(oneLine(/^Postgres did not start: .*incompatible/));
    expect.hasAssertions();
  });

  it('a failed start leaves the directory free for the next', async () => {
    await start({ settings: { fsync: false, shared_buffers: 'plenty' } }).catch(oneLine(/shared_buffers/));
    expect(await query(await start(), 'select 1 as n')).toEqual([{ n: 1 }]);
  });
});
