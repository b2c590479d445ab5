import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';

const root = path.resolve(import.meta.dirname, '../../..');
export const pinnedNode = path.join(root, 'node_modules/node/bin/node');
const stacks = ['standalone', 'processes', 'eventstoredb-kafka'] as const;

/** What the end-to-end suite runs against; the same tests whichever it is. */
export type TestStack = (typeof stacks)[number];

/** VAULT_TEST_STACK; standalone unless set. `eventstoredb-kafka` needs KAFKA_BROKERS besides. */
export const testStack: TestStack = readTestStack();

function readTestStack(): TestStack {
  const { VAULT_TEST_STACK: given = 'standalone' } = process.env;
  const found = stacks.find((stack) => stack === given);
  if (!found) throw new Error(`VAULT_TEST_STACK must be one of ${stacks.join(', ')}`);
  return found;
}

/** The double of EventStoreDB as a process. Its log lives as long as it does, across restarts of the vault. */
export interface EventStoreDouble {
  readonly connectionString: string;
  /** A command, or faults as JSON: see test/doubles/eventstoredb/main.ts. */
  tell(command: string): Promise<void>;
  stop(): Promise<void>;
}

export async function startEventStoreDouble(): Promise<EventStoreDouble> {
  const child = spawn(pinnedNode, ['test/doubles/eventstoredb/main.ts'], {
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

/** By data directory, whose log they hold. */
const doubles = new Map<string, Promise<EventStoreDouble>>();

export function eventStoreDoubleOf(dataDir: string): Promise<EventStoreDouble> {
  const double = doubles.get(dataDir) ?? startEventStoreDouble();
  doubles.set(dataDir, double);
  return double;
}

/** How a vault on this data directory is started: the script, and where its stores are. */
export async function launchOf(
  dataDir: string,
  stack: TestStack,
): Promise<{ readonly script: string; readonly env: Readonly<Record<string, string>> }> {
  if (stack === 'standalone') return { script: 'standalone/src/main.ts', env: {} };
  const script = 'standalone/src/stack/main.ts';
  if (stack === 'processes') return { script, env: {} };
  const { KAFKA_BROKERS } = process.env;
  if (!KAFKA_BROKERS) throw new Error('KAFKA_BROKERS is not set: run by `npm run test:distributed`');
  const { connectionString } = await eventStoreDoubleOf(dataDir);
  return {
    script,
    env: {
      EVENT_STORE: 'eventstoredb',
      EVENTSTOREDB_URL: connectionString,
      INVOCATION_FEED: 'kafka',
      KAFKA_BROKERS,
      KAFKA_TOPIC: path.basename(dataDir),
    },
  };
}

/** The end of what was started for a data directory. */
export async function forgetStores(dataDir: string): Promise<void> {
  const double = doubles.get(dataDir);
  doubles.delete(dataDir);
  await double?.then((it) => it.stop());
}
