// The one script that runs on the host's own Node (20 or newer). It installs what is missing, then hands
// over to the Node 24 that the workspace pins, so that every machine runs the same engine.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import path from 'node:path';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const manifest = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
const stamp = path.join(root, 'node_modules', '.installed');
const bin = (name) => path.join(root, 'node_modules', name);
const node = path.join(
  root,
  'node_modules',
  'node',
  'bin',
  process.platform === 'win32' ? 'node.exe' : 'node',
);

const tool = (script, ...args) => [bin(script), ...args];
/** Each task is the argument list for the pinned Node. */
const tasks = {
  start: ['standalone/src/main.ts'],
  vault: ['standalone/src/cli.ts'],
  test: tool('vitest/vitest.mjs', 'run', '--project', 'default'),
  'test:all': tool('vitest/vitest.mjs', 'run'),
  bench: ['test/bench/main.ts'],
  lint: tool('eslint/bin/eslint.js', '.', '--max-warnings', '0'),
  types: tool('typescript/bin/tsc', '-p', 'tsconfig.json'),
  deps: tool('dependency-cruiser/bin/dependency-cruiser.mjs', '--config', '.dependency-cruiser.cjs', '.'),
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

/** Installs the exact versions of pnpm-lock.yaml. Runs only when the lock file changed: offline otherwise. */
function install() {
  if (isInstalled()) return;
  process.stderr.write('installing dependencies (first run, about a minute) …\n');
  const done = spawnSync(
    process.platform === 'win32' ? 'npx.cmd' : 'npx',
    ['--yes', manifest.packageManager, 'install', '--frozen-lockfile', '--reporter=append-only'],
    { cwd: root, stdio: ['ignore', 2, 2], env: { ...process.env, npm_config_yes: 'true', CI: 'true' } },
  );
  if (done.error) fail(`cannot run npx: ${done.error.message}`);
  if (done.status !== 0) fail('installing dependencies failed; the lines above say why');
  mkdirSync(path.dirname(stamp), { recursive: true });
  writeFileSync(stamp, lockHash());
}

const [task, ...rest] = process.argv.slice(2);
const args = tasks[task];
if (!args) fail(`usage: node scripts/run.mjs <${Object.keys(tasks).join(' | ')}> [arguments]`);
install();

// --no-node-snapshot: isolated-vm needs it in whatever process loads it, and children inherit the flag.
const child = spawn(node, ['--no-node-snapshot', ...args, ...rest], {
  cwd: root,
  stdio: 'inherit',
  env: { ...process.env, PATH: `${path.dirname(node)}${path.delimiter}${process.env.PATH ?? ''}` },
});
// Ctrl-C reaches the whole process group, so the child has it already; other signals are passed on. Either way
// the child decides when the work is finished, and this process only reports how it ended.
process.on('SIGINT', () => {});
for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
child.on('error', (error) => fail(`cannot start Node 24: ${error.message}`));
child.on('exit', (code, signal) => process.exit(code ?? (signal === 'SIGINT' ? 130 : 143)));
