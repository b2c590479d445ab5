import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { waitUntil } from '@token-vault/test-support';
import { afterEach, describe, expect, it } from 'vitest';
import { createLazySandbox } from '../src/runs/lazy-sandbox.ts';
import { sandboxBundle } from '../src/sandbox/bundle.ts';
import { createChildAccounts, defaultAccountRange } from '../src/sandbox/child-accounts.ts';
import { childCommand, type WallTools } from '../src/sandbox/child-command.ts';
import { isRunning } from '../src/sandbox/inner-process.ts';
import type { SandboxPoolOptions, SandboxReport } from '../src/sandbox/index.ts';
import { defaultSandboxLimits } from '../src/sandbox/limits.ts';
import { noWalls, type Walls } from '../src/sandbox/wall-kinds.ts';
import { findWallTools, probeWalls } from '../src/sandbox/walls.ts';
import { createTestPool, handler, type TestPool } from './sandbox-pool-fixture.ts';

const isRoot = process.getuid?.() === 0;
const isLinux = process.platform === 'linux';
const trivial = handler('return { raw: 1 };');

const open: TestPool[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((test) => test.close()));
});

async function pool(options?: SandboxPoolOptions): Promise<TestPool> {
  const test = await createTestPool(options);
  open.push(test);
  return test;
}

/** A pool in which three tenants have a child each. */
async function inhabited(): Promise<{ test: TestPool; pids: readonly number[] }> {
  const test = await pool({ spares: 0 });
  for (const tenantId of ['alice', 'bob', 'carol']) await test.run(trivial, { tenantId });
  return { test, pids: test.pool.stats().pids };
}

const statusOf = (pid: number): string => readFileSync(`/proc/${pid}/status`, 'utf8');
const accountsOf = (pid: number): number[] =>
  (/^Uid:\s+(.*)$/m.exec(statusOf(pid))?.[1] ?? '').split(/\s+/).map(Number);

describe('a host', () => {
  const probe = async (tools: WallTools) =>
    probeWalls(await sandboxBundle(), defaultSandboxLimits, {
      tools,
      accounts: createChildAccounts(defaultAccountRange),
    });

  it('without support for one wall keeps the others', async () => {
    const tools = await findWallTools();
    const all = await probe(tools);
    const withoutFiles = { ...all, ownFiles: false, systemCallFilter: false };
    expect(await probe({ ...tools, bwrap: '/bin/false' })).toEqual(withoutFiles);
    const without = { noNetwork: false, ownProcesses: false, ...(isRoot ? {} : { ownAccount: false }) };
    expect(await probe({ ...tools, bwrap: '/bin/false', unshare: '/bin/false' })).toEqual({
      ...withoutFiles,
      ...without,
    });
  });

  it('without the tools still has the permission model', async () => {
    expect(await probe({})).toEqual({ ...noWalls, permissionModel: true, usageWatch: isLinux });
  });
});

describe('a vault that has run no reactor yet', () => {
  it('has reported the walls of its host, the same that a pool finds', async () => {
    const walls: Walls[] = [];
    const report = (event: SandboxReport) => void (event.kind === 'walls' && walls.push(event.walls));
    const lazy = createLazySandbox({ report });
    await waitUntil(() => walls.length === 1);
    await lazy.close();
    const test = await pool();
    expect(walls).toEqual([test.pool.stats().walls]);
  });

  it('ends without waiting for the probe of the walls, and reports nothing of it', async () => {
    const reports: SandboxReport[] = [];
    const lazy = createLazySandbox({ report: (event) => void reports.push(event) });
    await lazy.close();
    expect(reports).toEqual([]);
  });

  it('ends without waiting for the start of its pool', async () => {
    const lazy = createLazySandbox({});
    const running = lazy.compile({ tenantId: 'alice', code: 'module.exports = () => 1' });
    await Promise.all([lazy.close(), expect(running).rejects.toThrow('aborted')]);
  });
});

describe('a process', () => {
  it.skipIf(!isLinux)('is no longer running from the moment it is killed, before its exit is awaited', () => {
    const { pid = 0 } = spawn('sleep', ['60']);
    expect(isRunning(pid)).toBe(true);
    process.kill(pid, 'SIGKILL');
    expect(isRunning(pid)).toBe(false);
  });
});

describe.skipIf(!isLinux || !existsSync('/usr/bin/script') || !existsSync('/usr/bin/perl'))(
  'a child of a service in a terminal',
  () => {
    /**
     * The output of a program in the place of a child without walls, under a service with a terminal. TIOCSTI is
     * 0x5412.
     */
    const said = (): string => {
      const program = `import { text } from 'node:stream/consumers';
      const { startChild } = await import('${new URL('../src/sandbox/start-child.ts', import.meta.url).href}');
      const code = 'open(my $out, ">&=3"); my $own = open(my $tty, "+<", "/dev/tty");'
        + 'print $out ($own ? (ioctl($tty, 0x5412, my $key = "x") ? "typed" : "refused") : "absent");';
      const { socket } = startChild({ file: '/usr/bin/perl', args: ['-e', code], isAlone: false, filter: undefined });
      console.log('terminal: ' + await text(socket));`;
      const node = `'${process.execPath}' --input-type=module -e "$PROGRAM"`;
      return spawnSync('/usr/bin/script', ['-qec', node, '/dev/null'], {
        env: { PATH: '/usr/bin:/bin', SHELL: '/bin/sh', PROGRAM: program },
        stdio: ['ignore', 'pipe', 'pipe'],
        encoding: 'utf8',
      }).stdout;
    };

    it('has no terminal, into which it could insert a command for root', () => {
      expect(said()).toContain('terminal: absent');
    });
  },
);

describe('accounts of children', () => {
  it.skipIf(!isRoot)('are not that of Postgres, also when they cannot have one each', () => {
    const walls = { ...noWalls, unprivileged: true };
    const tools = { setpriv: '/usr/bin/setpriv' };
    const program = { program: '', addonPath: '' };
    const { args } = childCommand(program, defaultSandboxLimits, { walls, tools, account: undefined });
    // The accounts that libs/embedded-postgres/src/account.ts may choose are in the list of accounts.
    const named = readFileSync('/etc/passwd', 'utf8')
      .split('\n')
      .map((line) => line.split(':')[2]);
    const account = args.find((arg) => arg.startsWith('--reuid='))?.slice('--reuid='.length);
    expect(account).toMatch(/^[1-9]/);
    expect(named).not.toContain(account);
  });

  const range = { first: 70_001, last: 70_003 };

  it('are different, never used by another program, and unused for some time before they are used again', () => {
    const accounts = createChildAccounts(range, () => new Set([70_002]));
    expect([accounts.take(), accounts.take(), accounts.take()]).toEqual([70_001, 70_003, undefined]);
    accounts.release(70_001);
    accounts.release(70_003);
    expect([accounts.take(), accounts.take()]).toEqual([70_001, 70_003]);
    const rested = createChildAccounts(range, () => new Set());
    const first = rested.take() ?? 0;
    rested.release(first);
    expect(rested.take()).toBe(70_002);
  });

  it('are none that a process or a person of this machine has', () => {
    const own = process.getuid?.() ?? 0;
    expect(createChildAccounts({ first: own, last: own }).take()).toBeUndefined();
    expect(createChildAccounts({ first: 0, last: 0 }).take()).toBeUndefined();
  });
});

describe('a child', () => {
  it('has the walls that the pool reports once', async () => {
    const reports: SandboxReport[] = [];
    const test = await pool({ report: (event) => reports.push(event) });
    await test.run(trivial);
    expect(reports).toEqual([{ kind: 'walls', walls: test.pool.stats().walls }]);
  });

  it.skipIf(!isLinux)('has no variables of the environment of the service, and only its socket', async () => {
    const test = await pool();
    await test.run(trivial);
    const [pid = 0] = test.pool.stats().pids;
    const { walls } = test.pool.stats();
    expect(readFileSync(`/proc/${pid}/environ`, 'utf8')).toBe(
      `UV_USE_IO_URING=0\0TZ=UTC\0${walls.ownFiles ? 'PWD=/\0' : ''}`,
    );
    if (walls.systemCallFilter) expect(statusOf(pid)).toMatch(/^Seccomp:\s*2$/m);
    if (walls.unprivileged) {
      expect(statusOf(pid)).toMatch(/NoNewPrivs:\s*1/);
      expect(statusOf(pid)).toMatch(/CapEff:\s*0+\n/);
    }
    if (walls.resourceLimits)
      expect(readFileSync(`/proc/${pid}/limits`, 'utf8')).toMatch(/Max core file size\s+1\s+1/);
    if (walls.noNetwork) {
      // Two heading lines, then only the loopback of the child's own namespace.
      const devices = readFileSync(`/proc/${pid}/net/dev`, 'utf8').trim().split('\n').slice(2);
      expect(devices.map((line) => line.trim().split(':')[0])).toEqual(['lo']);
    }
  });

  it.skipIf(!isRoot)(
    'has an account that no neighbour has, nor the service, nor Postgres',
    async ({ skip }) => {
      const { test, pids } = await inhabited();
      if (!test.pool.stats().walls.ownAccount) skip('this host allows no accounts of their own');
      const accounts = pids.map((pid) => new Set(accountsOf(pid)));
      expect(accounts.every((ids) => ids.size === 1)).toBe(true);
      const ids = accounts.flatMap((each) => [...each]);
      expect(new Set(ids).size).toBe(pids.length);
      expect(pids.length).toBeGreaterThanOrEqual(3);
      const named = readFileSync('/etc/passwd', 'utf8')
        .split('\n')
        .map((line) => Number(line.split(':')[2]));
      expect(ids.filter((id) => named.includes(id))).toEqual([]);
      for (const pid of pids) expect(statusOf(pid)).toMatch(/^Groups:\s*$/m);
    },
  );

  it.skipIf(!isRoot || !existsSync('/usr/bin/setpriv'))(
    'that left its isolate could not read the memory of another child',
    async () => {
      const { pids } = await inhabited();
      const [one = 0, other = 0] = pids;
      const readAs = (account: number | undefined, pid: number) =>
        spawnSync('/usr/bin/setpriv', [
          `--reuid=${account}`,
          `--regid=${account}`,
          '--clear-groups',
          '--no-new-privs',
          'cat',
          `/proc/${pid}/maps`,
        ]).status;
      const [account] = accountsOf(one);
      expect(readAs(account, one)).toBe(0);
      expect(readAs(account, other)).not.toBe(0);
    },
  );

  it.skipIf(!isLinux)('sees no process except itself', async ({ skip }) => {
    const { test, pids } = await inhabited();
    if (!test.pool.stats().walls.ownProcesses) skip('this host allows no PID and mount namespaces');
    for (const pid of pids) {
      expect(statusOf(pid)).toMatch(/^NSpid:\s+\d+\s+1$/m);
      const proc = `/proc/${pid}/root/proc`;
      const { ownFiles } = test.pool.stats().walls;
      expect(existsSync(proc)).toBe(!ownFiles);
      if (ownFiles) continue;
      const seen = readdirSync(proc).filter((name) => /^\d+$/.test(name));
      expect(seen).toEqual(['1']);
    }
  });

  it.skipIf(!isLinux)(
    'leaves no process when it is killed, not even the process that waits for it',
    async () => {
      const test = await pool({ spares: 1 });
      const parents = test.pool.stats().pids.map((pid) => Number(/^PPid:\s+(\d+)/m.exec(statusOf(pid))?.[1]));
      const { pids } = test.pool.stats();
      await test.close();
      const left = [...pids, ...parents.filter((pid) => pid !== process.pid)];
      expect(left.filter((pid) => existsSync(`/proc/${pid}`))).toEqual([]);
    },
  );
});
