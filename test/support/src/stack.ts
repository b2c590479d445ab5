import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import flags from '../../../scripts/node-flags.json' with { type: 'json' };
import type { Credentials } from '@token-vault/standalone';
import { copyCluster } from './cluster-template.ts';
import { pinnedNode, programs } from './programs.ts';
import { type Client, createClient } from './stack-client.ts';
import { postmasterFile, superuserUrl } from './superuser-url.ts';
import { testDirectory } from './test-directory.ts';
import { forgetStores, launchOf, type TestStack, testStack } from './test-stack.ts';
import { waitUntil } from './waiting.ts';

const root = path.resolve(import.meta.dirname, '../../..');

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface StandaloneOptions {
  readonly dataDir: string;
  /** VAULT_…, DATABASE_URL. The port is a free one unless VAULT_PORT is set here. */
  readonly env?: Readonly<Record<string, string>>;
  /** The path from the root of the repository. By default the standalone vault. */
  readonly script?: string;
  /** A further descriptor that the process inherits from its starter, as number 40. */
  readonly descriptor?: number;
}

/** `standalone/src/main.ts` in a process of its own, which may be starting, running or ended. */
export interface SpawnedStandalone {
  readonly pid: number;
  readonly exited: Promise<Exit>;
  /** All text written to stdout and stderr. */
  output(): string;
  errors(): string;
  signal(name: NodeJS.Signals): void;
}

export interface StandaloneProcess extends SpawnedStandalone {
  readonly url: string;
  readonly dataDir: string;
  readonly credentials: Credentials;
  /** A client that sends `key` (by default the management key) with each request. */
  client(key?: string): Client;
  /** The URL of the superuser of the embedded Postgres. Contains its password. */
  databaseUrl(): Promise<string>;
  postmasterPid(): Promise<number>;
  /** The EventStoreDB that has the log. Undefined when the log is in Postgres. */
  readonly eventStoreUrl: string | undefined;
  /** Asks the process to end (by default with SIGTERM) and waits for its end. */
  stop(signal?: NodeJS.Signals): Promise<Exit>;
  /** `kill -9` of the vault and, on request, of its Postgres at the same moment. */
  kill(options?: { readonly withPostgres?: boolean }): Promise<void>;
}

/** Long enough for nine processes on a busy machine. */
const startTimeoutMs = 120_000;

/** Each with its data directory. */
const running = new Map<ChildProcess, string>();
// A vitest worker that is killed in the middle of a test loses its channel first.
for (const end of ['exit', 'disconnect']) {
  process.once(end, () => {
    for (const child of running.keys()) child.kill('SIGKILL');
  });
}

/** A fresh directory that the account of Postgres may pass through; `removeDataDirectory` removes it. */
export async function createDataDirectory(): Promise<string> {
  // The prefix by which the next run finds directories that a killed run left.
  const directory = await mkdtemp(path.join(testDirectory, `token-vault-test-${process.pid}-`));
  await chmod(directory, 0o711);
  return directory;
}

/** Kills the vaults that still run on it, and waits for their Postgres, which a watchdog ends. */
export async function removeDataDirectory(directory: string): Promise<void> {
  for (const [child, dataDir] of running) if (dataDir === directory) child.kill('SIGKILL');
  await forgetStores(directory);
  await waitUntil(async () => !isAlive(await postmasterOf(directory).catch(() => 0)), {
    timeoutMs: 30_000,
    what: 'the end of Postgres',
  });
  await rm(directory, { recursive: true, force: true, maxRetries: 20 });
}

/** From number 3 on. Node does not pass the first sixteen to its children by itself. */
const inherited = (descriptor: number | undefined): ('ignore' | number)[] =>
  descriptor === undefined ? [] : [...Array.from({ length: 37 }, () => 'ignore' as const), descriptor];

export function spawnStandalone(options: StandaloneOptions): SpawnedStandalone {
  const { PATH = '', HOME = '/', TMPDIR = tmpdir(), NODE_COMPILE_CACHE = '' } = process.env;
  const child = spawn(pinnedNode, [...flags, ...programs, options.script ?? 'standalone/src/main.ts'], {
    cwd: root,
    // No variable of the test run's own environment: NODE_OPTIONS and DATABASE_URL would change the tested process.
    env: {
      PATH,
      HOME,
      TMPDIR,
      NODE_COMPILE_CACHE,
      VAULT_PORT: '0',
      VAULT_DATA_DIR: options.dataDir,
      ...options.env,
    },
    stdio: ['ignore', 'pipe', 'pipe', ...inherited(options.descriptor)],
  });
  running.set(child, options.dataDir);
  let output = '';
  let errors = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (output += text));
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    output += text;
    errors += text;
  });
  const exited = new Promise<Exit>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => resolve({ code, signal }));
  });
  child.on('exit', () => running.delete(child));
  return {
    pid: child.pid ?? -1,
    exited,
    output: () => output,
    errors: () => errors,
    signal: (name) => void child.kill(name),
  };
}

/** The vault of VAULT_TEST_STACK, which may refuse to start. */
export async function spawnVault(
  options: Omit<StandaloneOptions, 'script'> & { readonly stack?: TestStack },
): Promise<SpawnedStandalone & { readonly eventStoreUrl: string | undefined }> {
  const { script, env } = await launchOf(options.dataDir, options.stack ?? testStack);
  const spawned = spawnStandalone({ ...options, script, env: { ...env, ...options.env } });
  return { ...spawned, eventStoreUrl: env['EVENTSTOREDB_URL'] };
}

/**
 * Starts the vault of VAULT_TEST_STACK and waits until it reports that it is ready. All parts are real: processes,
 * Postgres, the disk.
 * @throws Error with its output when it ends instead.
 */
export async function startStandaloneProcess(
  options: StandaloneOptions & { readonly stack?: TestStack },
): Promise<StandaloneProcess> {
  const { dataDir } = options;
  if (options.env?.['VAULT_ACCOUNT'] === undefined) await copyCluster(dataDir);
  const spawned = await spawnVault(options);
  let hasEnded = false;
  void spawned.exited.then(() => (hasEnded = true));
  const url = await waitUntil(
    () =>
      hasEnded || /^vault ready at (\S+)$/m.exec(spawned.output())?.[1]?.replace('localhost', '127.0.0.1'),
    { timeoutMs: startTimeoutMs, what: 'the start of the vault' },
  ).catch((error: unknown) => {
    spawned.signal('SIGKILL');
    throw error;
  });
  if (typeof url !== 'string') throw new Error(`the vault did not start:\n${spawned.output()}`);
  const credentialsOf = () =>
    JSON.parse(readFileSync(path.join(dataDir, 'credentials.json'), 'utf8')) as Credentials;
  return {
    ...spawned,
    url,
    dataDir,
    get credentials() {
      return credentialsOf();
    },
    client: (key) => createClient(url, key ?? credentialsOf().management_key),
    databaseUrl: () => superuserUrl(path.join(dataDir, 'postgres')),
    postmasterPid: () => postmasterOf(dataDir),
    stop(signal = 'SIGTERM') {
      spawned.signal(signal);
      return spawned.exited;
    },
    async kill({ withPostgres = false } = {}) {
      const postmaster = withPostgres && !hasEnded ? await postmasterOf(dataDir) : undefined;
      spawned.signal('SIGKILL');
      if (postmaster !== undefined) process.kill(postmaster, 'SIGKILL');
      await spawned.exited;
    },
  };
}

/** The metrics of each process of the vault. The router of a stack passes no such request on. */
export async function metricsOf({ url, dataDir }: StandaloneProcess): Promise<string> {
  const listed = await readFile(path.join(dataDir, 'stack.json'), 'utf8').catch(() => '[]');
  const services = (JSON.parse(listed) as { readonly name: string; readonly port?: number }[])
    .filter(({ name, port }) => port !== undefined && name !== 'gateway')
    .map(({ port }) => `http://127.0.0.1:${port}`);
  const texts = (services.length > 0 ? services : [url]).map(async (at) =>
    (await fetch(`${at}/metrics`)).text(),
  );
  return (await Promise.all(texts)).join('');
}

async function postmasterOf(dataDir: string): Promise<number> {
  return Number((await postmasterFile(path.join(dataDir, 'postgres')))[0]);
}

function isAlive(pid: number): boolean {
  if (!(pid > 0)) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
