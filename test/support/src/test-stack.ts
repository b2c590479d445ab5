import path from 'node:path';
import { eventStoreDoubleOf, stopEventStoreOf } from './event-store-server.ts';

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

/** Gives the vault that will be on this data directory a server with the log that `saveLog` copied. */
export async function loadLog(dataDir: string, place: string): Promise<void> {
  const { env } = await launchOf(dataDir, testStack);
  if (env['EVENTSTOREDB_URL']) await (await eventStoreDoubleOf(dataDir)).tell(`load ${place}`);
}

/** Ends the stores that were started for a data directory. */
export async function forgetStores(dataDir: string): Promise<void> {
  logs.delete(dataDir);
  await stopEventStoreOf(dataDir);
}
