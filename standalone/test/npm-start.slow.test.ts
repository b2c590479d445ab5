import { createDataDirectory, removeDataDirectory, waitUntil } from '@token-vault/test-support';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { access, chmod, cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const root = path.resolve(import.meta.dirname, '../..');
const shim = path.join(root, 'node_modules/.bin/node');

interface Started {
  readonly npm: ChildProcess;
  readonly exited: Promise<unknown[]>;
  readonly output: () => string;
  readonly port: number;
}

/** Runs `npm start` as a user does, and waits until the vault is ready. */
async function npmStart(options: {
  readonly cwd?: string;
  readonly dataDir?: string;
  readonly command?: string;
}): Promise<Started> {
  const { PATH = '', HOME = '/' } = process.env;
  // A process group of its own, so that a failing test leaves no vault behind.
  const npm = spawn('sh', ['-c', `${options.command ?? ''} exec npm start`], {
    cwd: options.cwd ?? root,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      // Without the pinned Node, which the test run puts in front.
      PATH: PATH.split(path.delimiter)
        .filter((each) => !each.includes('node_modules'))
        .join(path.delimiter),
      HOME,
      VAULT_PORT: '0',
      ...(options.dataDir === undefined ? {} : { VAULT_DATA_DIR: options.dataDir }),
    },
  });
  let output = '';
  for (const stream of [npm.stdout, npm.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  const exited = once(npm, 'exit');
  let hasEnded = false;
  void exited.then(() => (hasEnded = true));
  const ready = () => /^vault ready at http:\/\/localhost:(\d+)$/m.exec(output)?.[1];
  await waitUntil(() => hasEnded || ready() !== undefined, { timeoutMs: 120_000, what: 'npm start' });
  if (ready() === undefined) throw new Error(`npm start ended: ${output}`);
  return { npm, exited, output: () => output, port: Number(ready()) };
}

const isOpen = async (port: number): Promise<boolean> => {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
};

/** Checks that neither the vault nor its Postgres runs. */
async function expectGone({ port }: Started, dataDir: string): Promise<void> {
  const pidFile = path.join(dataDir, 'postgres/cluster/data/postmaster.pid');
  await waitUntil(async () => !(await isOpen(port)) && !(await exists(pidFile)), {
    timeoutMs: 30_000,
    what: 'the end of the vault and of Postgres',
  });
}

const exists = (file: string) =>
  access(file).then(
    () => true,
    () => false,
  );

describe('npm start', () => {
  let dataDir: string;
  beforeAll(async () => {
    dataDir = await createDataDirectory();
  });
  afterAll(() => removeDataDirectory(dataDir));

  it('ends the vault when npm gets SIGTERM', async () => {
    const started = await npmStart({ dataDir });
    started.npm.kill('SIGTERM');
    await started.exited;
    await expectGone(started, dataDir);
    expect(started.output()).toContain('stopping …');
  });

  it('ends the vault when npm started it by the wrapper script that an install leaves', async () => {
    await writeFile(shim, '#!/bin/sh\n"$(dirname "$0")/../node/bin/node" "$@"\nexit $?\n', { mode: 0o755 });
    const started = await npmStart({ dataDir });
    started.npm.kill('SIGTERM');
    await started.exited;
    await expectGone(started, dataDir);
    expect(await exists(shim)).toBe(false);
  });

  it('ends the vault when npm is killed', async () => {
    const started = await npmStart({ dataDir });
    started.npm.kill('SIGKILL');
    await expectGone(started, dataDir);
  });

  it('ends the vault when the launcher between npm and the vault is killed', async () => {
    const started = await npmStart({ dataDir });
    const children = await readFile(`/proc/${started.npm.pid}/task/${started.npm.pid}/children`, 'utf8');
    process.kill(Number(children.trim().split(' ')[0]), 'SIGKILL');
    await expectGone(started, dataDir);
  });
});

describe.runIf(await exists('/usr/bin/script'))('npm start in a terminal', () => {
  it('starts a vault without a terminal, which Ctrl-C ends', async () => {
    const dataDir = await createDataDirectory();
    const terminal = spawn('/usr/bin/script', ['-qec', 'npm start', '/dev/null'], {
      cwd: root,
      stdio: ['pipe', 'pipe', 'ignore'],
      env: {
        PATH: process.env.PATH,
        HOME: process.env.HOME,
        SHELL: '/bin/sh',
        VAULT_PORT: '0',
        VAULT_DATA_DIR: dataDir,
      },
    });
    let output = '';
    terminal.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
    try {
      await waitUntil(() => output.includes('vault ready at'), { timeoutMs: 120_000 });
      const supervisor = await readFile(path.join(dataDir, 'postgres/supervisor.pid'), 'utf8');
      const stat = await readFile(`/proc/${supervisor.trim()}/stat`, 'latin1');
      // tty_nr of proc_pid_stat(5).
      expect(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[4]).toBe('0');
      const ended = once(terminal, 'exit');
      terminal.stdin.write('\x03');
      await ended;
      await waitUntil(
        async () => !(await exists(path.join(dataDir, 'postgres/cluster/data/postmaster.pid'))),
        {
          timeoutMs: 30_000,
        },
      );
      expect(output.match(/stopping …/g)).toHaveLength(1);
    } finally {
      terminal.kill('SIGKILL');
      await removeDataDirectory(dataDir);
    }
  });
});

describe.runIf(process.getuid?.() === 0)('npm start as root with umask 077', () => {
  it('uses the default data directory, also when an earlier start made it for its owner only', async () => {
    const checkout = await mkdtemp(path.join(tmpdir(), 'token-vault-test-umask-'));
    try {
      await chmod(checkout, 0o711);
      // The launcher finds the checkout by its own path, so the scripts are copied. The other files are linked.
      await cp(path.join(root, 'scripts'), path.join(checkout, 'scripts'), { recursive: true });
      for (const name of ['package.json', 'pnpm-lock.yaml', 'node_modules', 'standalone'])
        await symlink(path.join(root, name), path.join(checkout, name));
      for (const command of ['umask 077;', 'umask 077; chmod 700 .vault;']) {
        const started = await npmStart({ cwd: checkout, command });
        expect(await exists(path.join(checkout, '.vault/root.key'))).toBe(true);
        started.npm.kill('SIGTERM');
        await expectGone(started, path.join(checkout, '.vault'));
      }
    } finally {
      await rm(checkout, { recursive: true, force: true, maxRetries: 20 });
    }
  });
});

describe('an argument, as if settings were arguments', () => {
  it.each([
    ['start', '--help', 0],
    ['stack', '--help', 0],
    // It may be a secret, so it is not repeated.
    ['start', '--root-key=abc', 2],
  ])('npm run %s -- %s starts nothing and ends with status %i', async (task, argument, status) => {
    const dataDir = path.join(tmpdir(), 'not-made-by-an-argument');
    const env = { ...process.env, VAULT_DATA_DIR: dataDir };
    const npm = spawn('npm', ['run', '--silent', task, '--', argument], { cwd: root, env });
    let output = '';
    for (const stream of [npm.stdout, npm.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => (output += text));
    expect(await once(npm, 'close')).toEqual([status, null]);
    expect(output).toMatch(/^usage: .*VAULT_PORT.*configuration\.md/s);
    expect(output).not.toContain('abc');
    await expect(access(dataDir)).rejects.toThrow('ENOENT');
  });
});
