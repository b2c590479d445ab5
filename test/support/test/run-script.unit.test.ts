import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { waitUntil } from '@token-vault/test-support';

const scripts = path.resolve(import.meta.dirname, '../../../scripts');
const lock = 'lockfileVersion: 9\n';
let root: string;

beforeEach(async () => {
  root = await mkdtemp(path.join(tmpdir(), 'run-'));
  await cp(scripts, path.join(root, 'scripts'), { recursive: true });
  await writeFile(path.join(root, 'package.json'), JSON.stringify({ packageManager: 'pnpm@10.0.0' }));
  await writeFile(path.join(root, 'pnpm-lock.yaml'), lock);
});

afterEach(() => rm(root, { recursive: true, force: true }));

const stamp = () => path.join(root, 'node_modules', '.installed');

async function installed(): Promise<void> {
  await mkdir(path.join(root, 'node_modules/node/bin'), { recursive: true });
  await symlink(process.execPath, path.join(root, 'node_modules/node/bin/node'));
  const platform = `${process.platform}-${process.arch}`;
  await writeFile(stamp(), createHash('sha256').update(lock).update(platform).digest('hex'));
}

/** A replacement for npm. `calls` has one line for each call. */
async function fakeNpm(body: string): Promise<string> {
  const npm = path.join(root, 'npm-cli.js');
  const count = `require('fs').appendFileSync(${JSON.stringify(path.join(root, 'calls'))}, process.argv.slice(2).join(' ') + '\\n');`;
  await writeFile(npm, `${count}${body}`);
  return npm;
}

const linksNode = () => `const bin = ${JSON.stringify(path.join(root, 'node_modules/node/bin'))};
  require('fs').mkdirSync(bin, { recursive: true }); require('fs').symlinkSync(process.execPath, bin + '/node');`;

function run(args: string[], environment: NodeJS.ProcessEnv = {}): ChildProcess {
  const env = { PATH: process.env['PATH'], HOME: root, ...environment };
  return spawn(process.execPath, [path.join(root, 'scripts', 'run.mjs'), ...args], { stdio: 'pipe', env });
}

async function ended(child: ChildProcess): Promise<{ code: number | null; out: string; err: string }> {
  const exit = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)));
  const [code, out, err] = await Promise.all([exit, text(child.stdout!), text(child.stderr!)]);
  return { code, out, err };
}

describe('a task', () => {
  beforeEach(installed);

  it('passes on the output and the exit code, and installs nothing again', async () => {
    const { code, out, err } = await ended(run(['node', '-e', 'console.log("done"); process.exit(3)']));
    expect({ code, out, err }).toEqual({ code: 3, out: 'done\n', err: '' });
  });

  it('that a signal ended is reported as shells do', async () => {
    expect((await ended(run(['node', '-e', 'process.kill(process.pid, "SIGKILL")']))).code).toBe(137);
  });

  it.each(['SIGINT', 'SIGTERM'] as const)(
    'finishes its work on %s, and the script waits for it',
    async (signal) => {
      const code = `process.on('${signal}', () => { console.log('finished'); process.exit(0); });
      setInterval(() => {}, 1000); console.log('ready');`;
      const child = run(['node', '-e', code]);
      let out = '';
      child.stdout?.on('data', (chunk: Buffer) => (out += chunk.toString()));
      await waitUntil(() => out.includes('ready'));
      child.kill(signal);
      expect((await ended(child)).code).toBe(0);
      expect(out).toBe('ready\nfinished\n');
    },
  );

  it('that does not exist is answered with the list of tasks', async () => {
    for (const args of [[], ['toString']]) {
      const { code, err } = await ended(run(args));
      expect(code).toBe(1);
      expect(err).toMatch(/^usage: .*start \| .*test/);
    }
  });
});

describe('the first run', () => {
  it('installs once, also when two commands start together', async () => {
    const npm = await fakeNpm(linksNode());
    const both = [1, 2].map(() => ended(run(['node', '-e', ''], { npm_execpath: npm })));
    expect((await Promise.all(both)).map(({ code }) => code)).toEqual([0, 0]);
    const calls = (await readFile(path.join(root, 'calls'), 'utf8')).trim().split('\n');
    expect(calls).toEqual([
      'exec --yes -- pnpm@10.0.0 install --frozen-lockfile --prod=false --reporter=append-only',
    ]);
  });

  it('that failed is repeated by the next command', async () => {
    const failing = await fakeNpm('process.exit(1)');
    const { code, err } = await ended(run(['node', '-e', ''], { npm_execpath: failing }));
    expect(code).toBe(1);
    expect(err).toContain('installing dependencies failed');
    const npm = await fakeNpm(linksNode());
    expect((await ended(run(['node', '-e', ''], { npm_execpath: npm }))).code).toBe(0);
    expect(await readFile(stamp(), 'utf8')).toMatch(/^[0-9a-f]{64}$/);
  });

  it('that was killed leaves a lock that does not prevent the next', async () => {
    await mkdir(path.join(root, '.cache'));
    await writeFile(path.join(root, '.cache', 'install.lock'), '999999999');
    const npm = await fakeNpm(linksNode());
    expect((await ended(run(['node', '-e', ''], { npm_execpath: npm }))).code).toBe(0);
  });

  it('keeps the caches in the checkout when the home directory cannot be written', async () => {
    const npm = await fakeNpm(`console.error('HOME=' + process.env.HOME);${linksNode()}`);
    const { err } = await ended(run(['node', '-e', ''], { npm_execpath: npm, HOME: '/nonexistent' }));
    expect(err).toContain(`HOME=${path.join(root, '.cache', 'home')}`);
  });

  it('names npm when npm is missing', async () => {
    const { code, err } = await ended(run(['node', '-e', ''], { PATH: root }));
    expect(code).toBe(1);
    expect(err).toContain('npx is missing');
  });
});
