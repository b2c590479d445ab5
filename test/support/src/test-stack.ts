import { freePorts } from '@token-vault/process';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { testDirectory } from './test-directory.ts';

const root = path.resolve(import.meta.dirname, '../../..');
export const pinnedNode = path.join(root, 'node_modules/node/bin/node');
/** With VAULT_TEST_PROGRAMS, programs start from one file each (scripts/test-programs.mjs). Processes that they start inherit these flags. */
export const programs: readonly string[] = process.env['VAULT_TEST_PROGRAMS']
  ? ['--import', process.env['VAULT_TEST_PROGRAMS']]
  : [];
const stacks = ['standalone', 'processes', 'eventstoredb', 'eventstoredb-kafka'] as const;

/** The stack under the end-to-end suite. The tests are the same for each. */
export type TestStack = (typeof stacks)[number];

/** VAULT_TEST_STACK; standalone unless set. `eventstoredb` has the direct feed, `eventstoredb-kafka` needs KAFKA_BROKERS. */
export const testStack: TestStack = readTestStack();

function readTestStack(): TestStack {
  const { VAULT_TEST_STACK: given = 'standalone' } = process.env;
  const found = stacks.find((stack) => stack === given);
  if (!found) throw new Error(`VAULT_TEST_STACK must be one of ${stacks.join(', ')}`);
  return found;
}

/** The double of EventStoreDB as a process. Its log lives as long as the process, across restarts of the vault. */
export interface EventStoreDouble {
  readonly connectionString: string;
  /** A command, or faults as JSON: see test/doubles/eventstoredb/main.ts. */
  tell(command: string): Promise<void>;
  stop(): Promise<void>;
}

/** With EVENTSTOREDB_SERVER, the server that this program starts instead; with EVENTSTOREDB_URL, the one that runs there. */
export function startEventStoreDouble(): Promise<EventStoreDouble> {
  const { EVENTSTOREDB_SERVER: program, EVENTSTOREDB_URL: connectionString } = process.env;
  if (connectionString) {
    const tell = (command: string) =>
      Promise.reject(new Error(`the server of EVENTSTOREDB_URL cannot be told ${command}`));
    return Promise.resolve({ connectionString, tell, stop: async () => undefined });
  }
  return program ? startServerOf(path.resolve(root, program)) : startDouble();
}

let started = 0;

async function startServerOf(program: string): Promise<EventStoreDouble> {
  // The prefix by which the next run finds directories that a killed run left.
  const directory = await mkdtemp(path.join(testDirectory, `token-vault-test-${process.pid}-esdb-`));
  const name = `${process.pid}-${(started += 1)}`;
  const [port = 0] = await freePorts(['127.0.0.1']);
  const run = async (...args: string[]) => void (await promisify(execFile)(program, args));
  const start = () => run('start', name, String(port), directory);
  await start();
  let isUp = true;
  return {
    connectionString: `esdb://127.0.0.1:${port}?tls=false`,
    async tell(command) {
      if (command !== 'down' && command !== 'up')
        throw new Error(`a server of EVENTSTOREDB_SERVER cannot be told ${command}`);
      await (command === 'up' ? start() : run('kill', name));
      isUp = command === 'up';
    },
    async stop() {
      if (isUp) await run('stop', name);
      isUp = false;
      await rm(directory, { recursive: true, force: true });
    },
  };
}

async function startDouble(): Promise<EventStoreDouble> {
  const child = spawn(pinnedNode, [...programs, 'test/doubles/eventstoredb/main.ts'], {
    cwd: root,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const said = async () => JSON.parse((await lines.next()).value as string) as Record<string, unknown>;
  const { connectionString } = await said();
  return {
    connectionString: String(connectionString),
    async tell(command) {
      child.stdin.write(`${command}\n`);
      const answer = await said();
      if (answer['done'] !== command) throw new Error(`the double says ${JSON.stringify(answer)}`);
    },
    stop: () => ended(child),
  };
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.kill('SIGTERM');
  await exit;
}

/** By the data directory of their vault. */
const doubles = new Map<string, Promise<EventStoreDouble>>();

export function eventStoreDoubleOf(dataDir: string): Promise<EventStoreDouble> {
  const double = doubles.get(dataDir) ?? startEventStoreDouble();
  doubles.set(dataDir, double);
  return double;
}

/** The variables that name the log of a vault on this data directory, when it is not in its Postgres. */
const logs = new Map<string, Readonly<Record<string, string>>>();

/** For commands beside a vault that was started by `launchOf`. */
export const logOf = (dataDir: string): Readonly<Record<string, string>> => logs.get(dataDir) ?? {};

/** How a vault on this data directory is started: the script, and the addresses of its stores. */
export async function launchOf(
  dataDir: string,
  stack: TestStack,
): Promise<{ readonly script: string; readonly env: Readonly<Record<string, string>> }> {
  if (stack === 'standalone') return { script: 'standalone/src/main.ts', env: {} };
  const script = 'standalone/src/stack/main.ts';
  // A suite that is about one vault is cheaper with one replica of each service.
  const { VAULT_STACK_REPLICAS } = process.env;
  const replicas = VAULT_STACK_REPLICAS ? { VAULT_STACK_REPLICAS } : {};
  if (stack === 'processes') return { script, env: replicas };
  const { connectionString } = await eventStoreDoubleOf(dataDir);
  // The vaults of a run may share a server, which an earlier run has used too.
  const prefix = `${path.basename(dataDir).replaceAll(/\W/g, '_').slice(-32)}.`;
  const store = {
    EVENT_STORE: 'eventstoredb',
    EVENTSTOREDB_URL: connectionString,
    ...(process.env['EVENTSTOREDB_URL'] ? { EVENTSTOREDB_STREAM_PREFIX: prefix } : {}),
  };
  logs.set(dataDir, store);
  if (stack === 'eventstoredb') return { script, env: { ...store, ...replicas } };
  const { KAFKA_BROKERS } = process.env;
  if (!KAFKA_BROKERS) throw new Error('KAFKA_BROKERS is not set: run by `npm run test:distributed`');
  const feed = { INVOCATION_FEED: 'kafka', KAFKA_BROKERS, KAFKA_TOPIC: path.basename(dataDir) };
  return { script, env: { ...store, ...replicas, ...feed } };
}

/**
 * Copies the log to a file as an operator copies the files of its server. Gives the position of its last event. Does nothing when the log is in
 * Postgres, where a backup has it.
 */
export async function saveLog(dataDir: string, file: string): Promise<bigint | undefined> {
  const server = await doubles.get(dataDir);
  if (!server) return undefined;
  await server.tell(`save ${file}`);
  const events = JSON.parse(await readFile(file, 'utf8')) as { readonly position: number }[];
  return BigInt(events.at(-1)?.position ?? 0);
}

/** Gives the vault that will be on this data directory a server with the log of the file. */
export async function loadLog(dataDir: string, file: string): Promise<void> {
  const { env } = await launchOf(dataDir, testStack);
  if (env['EVENTSTOREDB_URL']) await (await eventStoreDoubleOf(dataDir)).tell(`load ${file}`);
}

/** Ends the stores that were started for a data directory. */
export async function forgetStores(dataDir: string): Promise<void> {
  const double = doubles.get(dataDir);
  doubles.delete(dataDir);
  logs.delete(dataDir);
  await double?.then((it) => it.stop());
}
