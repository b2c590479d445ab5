// The one script that runs on the host's own Node (20 or newer). It installs missing packages, then starts
// the Node 24 that the workspace pins, so that every machine uses the same version.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { accessSync, constants, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const manifest = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
const cache = path.join(root, '.cache');
const stamp = path.join(root, 'node_modules', '.installed');
const bin = (name) => path.join(root, 'node_modules', name);
const node = bin('node/bin/node');

const tool = (script, ...args) => [bin(script), ...args];
const read = (name) => JSON.parse(readFileSync(new URL(name, import.meta.url), 'utf8'));
/** Each task is the argument list for the pinned Node. */
const tasks = {
  start: ['standalone/src/main.ts'],
  stack: ['standalone/src/stack/main.ts'],
  vault: ['standalone/src/cli.ts'],
  test: tool('vitest/vitest.mjs', 'run', '--project', 'default'),
  'test:all': tool('vitest/vitest.mjs', 'run'),
  // The tests that prove the guarantees about the log, the keys and their copies. They belong to both projects, so CI runs them with the
  // others.
  'test:proof': tool('vitest/vitest.mjs', 'run', ...read('proofs.json')),
  'test:distributed': ['test/distributed/main.ts'],
  'test:real': ['test/real/main.ts'],
  'test:containers': tool('vitest/vitest.mjs', 'run', '--project', 'slow', 'test/containers/'),
  bench: ['test/bench/main.ts'],
  'console:shots': ['console/test/shots.ts'],
  'bench:lists': ['test/bench/lists.ts'],
  'bench:rebuild': ['test/bench/rebuild.ts'],
  lint: tool('eslint/bin/eslint.js', '.', '--max-warnings', '0'),
  // The console runs in a browser: it has types of its own.
  types: tool('typescript/bin/tsc', '--build', 'tsconfig.json', 'console/tsconfig.json'),
  deps: ['scripts/deps.ts'],
  structure: ['scripts/structure.ts'],
  // Finds exports, files and packages that no file uses.
  unused: tool('knip/bin/knip.js', '--no-config-hints'),
  format: tool('prettier/bin/prettier.cjs', '--write', '--log-level', 'warn', '.'),
  'format:check': tool('prettier/bin/prettier.cjs', '--check', '.'),
  node: [],
};

function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}

function lockHash() {
  const lock = readFileSync(path.join(root, 'pnpm-lock.yaml'));
  return createHash('sha256').update(lock).update(`${process.platform}-${process.arch}`).digest('hex');
}

function isInstalled() {
  return existsSync(node) && existsSync(stamp) && readFileSync(stamp, 'utf8') === lockHash();
}

/** Two commands that start at the same time must not both install: the second one waits for the first. */
async function holdInstallLock() {
  const lock = path.join(cache, 'install.lock');
  mkdirSync(cache, { recursive: true });
  for (let isReported = false; ; await sleep(200)) {
    try {
      writeFileSync(lock, String(process.pid), { flag: 'wx' });
      process.on('exit', () => rmSync(lock, { force: true }));
      return;
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    }
    const holder = Number(existsSync(lock) ? readFileSync(lock, 'utf8') : 0);
    if (holder > 0 && !isAlive(holder)) rmSync(lock, { force: true });
    else if (!isReported) process.stderr.write('waiting for another install to end …\n');
    isReported = true;
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code !== 'ESRCH';
  }
}

/** npm and pnpm keep their caches at home; where that is read-only, they keep them in this checkout. */
function installEnvironment() {
  const environment = { ...process.env, npm_config_yes: 'true', CI: 'true' };
  try {
    accessSync(os.homedir(), constants.W_OK);
    return environment;
  } catch {
    const home = path.join(cache, 'home');
    mkdirSync(home, { recursive: true });
    const userconfig = process.env.npm_config_userconfig ?? path.join(os.homedir(), '.npmrc');
    // npm passes its cache to child processes by a variable, which would override HOME.
    return {
      ...environment,
      HOME: home,
      npm_config_cache: path.join(home, '.npm'),
      npm_config_userconfig: userconfig,
    };
  }
}

/** Under `npm run` the running npm starts pnpm; otherwise npx does, which is a package of its own on some systems. */
function packageManager() {
  const npm = process.env.npm_execpath;
  const isNpm = npm !== undefined && path.basename(npm) === 'npm-cli.js' && existsSync(npm);
  return isNpm ? [process.execPath, npm, 'exec', '--yes', '--'] : ['npx', '--yes'];
}

/** Installs the exact versions of pnpm-lock.yaml. Runs only when the lock file changed: offline otherwise. */
async function install() {
  if (isInstalled()) return;
  await holdInstallLock();
  if (isInstalled()) return;
  process.stderr.write('installing dependencies (first run, about a minute) …\n');
  const [command, ...prefix] = packageManager();
  // --prod=false: with NODE_ENV=production pnpm would not install the packages that the checks need.
  const options = ['install', '--frozen-lockfile', '--prod=false', '--reporter=append-only'];
  const done = spawnSync(command, [...prefix, manifest.packageManager, ...options], {
    cwd: root,
    stdio: ['ignore', 2, 2],
    env: installEnvironment(),
  });
  if (done.error?.code === 'ENOENT') fail('npx is missing; it comes with npm: install npm, then try again');
  if (done.error) fail(`cannot run ${command}: ${done.error.message}`);
  if (done.signal) process.exit(statusOf(done.signal));
  if (done.status !== 0) fail('installing dependencies failed; the lines above say why');
  writeFileSync(stamp, lockHash());
  rmSync(path.join(cache, 'install.lock'), { force: true });
}

/** Stops the task when npm, or the shell between, has ended: a killed npm passes no signal on. */
function stopWithParent() {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    child.kill('SIGTERM');
  }, 250);
  timer.unref();
}

/** The exit status that a shell reports for a command that a signal ended. */
function statusOf(signal) {
  return 128 + (os.constants.signals[signal] ?? 0);
}

if (process.platform === 'win32') fail('Windows is not supported; run the vault under WSL or in a container');
if (Number.parseInt(process.versions.node, 10) < 20)
  fail(`Node 20 or newer is needed, this is ${process.version}`);
const [task, ...rest] = process.argv.slice(2);
if (!Object.hasOwn(tasks, task ?? '')) {
  fail(`usage: node scripts/run.mjs <${Object.keys(tasks).join(' | ')}> [arguments]`);
}
await install();
// The wrapper script of pnpm does not `exec`: npm would signal the wrapper instead of this process at the next `npm run`.
rmSync(bin('.bin/node'), { force: true });

// The flags make V8 collect garbage earlier: half the memory under load (160 MB instead of 340 MB with 64 connections) at the same speed.
const isServer = ['start', 'stack'].includes(task);
const child = spawn(node, [...read('node-flags.json'), ...tasks[task], ...rest], {
  cwd: root,
  // A server stops when the channel closes, which happens when this process is killed.
  stdio: ['inherit', 'inherit', 'inherit', ...(isServer ? ['ipc'] : [])],
  // A server gets a session of its own and so has no terminal: after it has left the root account, it could otherwise insert input into the
  // terminal of root (ADR 23).
  detached: isServer,
  env: {
    ...process.env,
    // Types are stripped and scripts compiled once, not at each start: half the time to the first line of a command.
    NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? path.join(cache, 'compile'),
    PATH: `${path.dirname(node)}${path.delimiter}${process.env.PATH ?? ''}`,
  },
});
// Ctrl-C in a terminal reaches the whole process group, so a child that is not a server has already got the signal. Other signals are
// passed on. This process ends after the child, with its exit status.
const isInTerminal = process.stdin.isTTY || process.stderr.isTTY;
process.on('SIGINT', () => (isInTerminal && !isServer) || child.kill('SIGINT'));
for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
if (process.env.npm_lifecycle_event !== undefined) stopWithParent();
child.on('error', (error) => fail(`cannot start Node 24: ${error.message}`));
child.on('exit', (code, signal) => process.exit(code ?? statusOf(signal)));
