import {
  Closers,
  ignoreIdleConnectionErrors,
  openKeyRing,
  openLog,
  openReadModels,
  openRootKeys,
  schema,
  type RootKeySources,
  type ProcessContext,
} from '@token-vault/processes';
import { migrate } from '@token-vault/processes/migrations';
import { startPosition, type EventStore } from '@token-vault/event-store';
import {
  createLogger,
  createMetrics,
  errorFields,
  freePorts,
  noSpans,
  type Logger,
} from '@token-vault/service-kit';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { takeAccount } from '../account/service-account.ts';
import { makeFirstTenant, type Credentials } from '../credentials.ts';
import { openDataDirectory, type DataDirectory } from '../data-directory.ts';
import { requireReachable } from '../external-database.ts';
import { startEmbeddedPostgres, type EmbeddedPostgres } from '../postgres/index.ts';
import type { RunningStandalone } from '../start.ts';
import { createFirstTenant } from '../vault.ts';
import { Replica } from './replica.ts';
import type { StackSettings } from './settings.ts';

/** In the order they are started; the gateway comes last. */
const services = ['projectors', 'command-service', 'query-service', 'reactor-runner'] as const;

/** Only the gateway is reached from elsewhere. */
const loopback = '127.0.0.1';

/** Of Postgres: each process has pools of its own. */
const connectionsPerReplica = 80;

interface Place {
  readonly settings: StackSettings;
  readonly directory: DataDirectory;
  readonly databaseUrl: string;
  readonly logger: Logger;
}

/** What goes on to the processes: everything that is set, and where they find what this one has started. */
function environmentOf({ settings, directory, databaseUrl }: Place): NodeJS.ProcessEnv {
  const { rootKey, transit, trustProxy = 0 } = settings;
  return {
    // Half of what a start takes is the stripping of types.
    NODE_COMPILE_CACHE: path.join(tmpdir(), 'token-vault-compile-cache'),
    ...process.env,
    DATABASE_URL: databaseUrl,
    VAULT_HOST: loopback,
    // The gateway is one more.
    VAULT_TRUST_PROXY: typeof trustProxy === 'number' ? String(trustProxy + 1) : `loopback, ${trustProxy}`,
    ...(rootKey === undefined && transit === undefined ? { VAULT_ROOT_KEY_FILE: directory.rootKeyFile } : {}),
  };
}

/** The tables, the root key of a new vault, and its first tenant: what no service makes. */
async function prepare(place: Place): Promise<RootKeySources> {
  const { settings, directory, databaseUrl } = place;
  // An account that may not use the log is said once, before every process says it.
  await withLog(place, () => Promise.resolve());
  await migrate(databaseUrl, schema);
  const sources = { ...settings, rootKeyFile: directory.rootKeyFile };
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 1 });
  ignoreIdleConnectionErrors(pool);
  try {
    await openRootKeys(sources, pool);
  } finally {
    await pool.end();
  }
  return sources;
}

async function makeTenant(
  place: Place,
  sources: RootKeySources,
  baseUrl: string,
): Promise<Credentials | undefined> {
  const { directory, logger } = place;
  return withLog(place, async (context, store) =>
    makeFirstTenant({
      file: directory.credentialsFile,
      baseUrl,
      isLogEmpty: async () => (await store.head()) === startPosition,
      create: async (tenantId) => {
        const keyRing = await openKeyRing(context, sources);
        const { progress } = await openReadModels(context, store);
        return createFirstTenant({ store, keyRing, progress, logger }, tenantId);
      },
    }),
  );
}

/** Works with the log, and closes what was opened for it. */
async function withLog<Result>(
  { settings, databaseUrl, logger }: Place,
  work: (context: ProcessContext, store: EventStore) => Promise<Result>,
): Promise<Result> {
  const closers = new Closers();
  try {
    const metrics = createMetrics('stack');
    const context = { settings: { ...settings, databaseUrl }, logger, metrics, spans: noSpans, closers };
    return await work(context, await openLog(context));
  } finally {
    await closers.close();
  }
}

/** Which process is which, for whoever looks from outside: `stack.json` in the data directory. */
function describeTo(directory: DataDirectory, replicas: readonly Replica[]): () => void {
  let writing = Promise.resolve();
  return () => {
    const described = replicas.map(({ name, port, pid }) => ({ name, port, pid: pid ?? null }));
    writing = writing
      .then(() => writeFile(path.join(directory.root, 'stack.json'), JSON.stringify(described)))
      .catch(() => undefined);
  };
}

async function createReplicas(place: Place): Promise<readonly Replica[]> {
  const { settings, logger, directory } = place;
  const environment = environmentOf(place);
  const replicas: Replica[] = [];
  const onChange = describeTo(directory, replicas);
  const add = (name: string, script: string, port: number, more: NodeJS.ProcessEnv = {}) =>
    replicas.push(
      new Replica({ name, script, port, environment: { ...environment, ...more }, logger, onChange }),
    );
  const names = services.flatMap((service) =>
    Array.from({ length: settings.replicas }, (_, index) => ({ service, number: index + 1 })),
  );
  const isChosen = settings.port !== 0;
  const [first = 0, ...others] = await freePorts([
    isChosen ? loopback : settings.host,
    ...names.map(() => loopback),
  ]);
  const gatewayPort = isChosen ? settings.port : first;
  names.forEach(({ service, number }, index) => {
    const port = others[index] ?? 0;
    // What was chosen for the gateway may be among those found.
    add(`${service} ${number}`, `processes/src/${service}.ts`, port === gatewayPort ? first : port);
  });
  const urlsOf = (service: string) =>
    replicas
      .filter(({ name }) => name.startsWith(service))
      .map(({ port }) => `http://${loopback}:${port}`)
      .join(',');
  add('gateway', 'gateway/src/main.ts', gatewayPort, {
    VAULT_HOST: settings.host,
    COMMAND_SERVICE_URLS: urlsOf('command-service'),
    QUERY_SERVICE_URLS: urlsOf('query-service'),
  });
  return replicas;
}

async function openDatabase(
  { databaseUrl, replicas }: StackSettings,
  directory: DataDirectory,
  logger: Logger,
) {
  if (databaseUrl !== undefined) {
    await requireReachable(databaseUrl);
    return { url: databaseUrl, postgres: undefined };
  }
  const settings = { max_connections: 20 + connectionsPerReplica * replicas };
  const postgres = await startEmbeddedPostgres({ dataDir: directory.postgres, logger, settings });
  return { url: postgres.url, postgres };
}

/**
 * Starts a vault as separate processes on this machine, several of each service, and starts anew what ends by itself.
 * @throws as `startStandalone`, and ConfigurationError
 */
export async function startStack(settings: StackSettings): Promise<RunningStandalone> {
  const logger = createLogger({ service: 'stack', level: settings.logLevel });
  const directory = await openDataDirectory(settings.dataDir);
  let replicas: readonly Replica[] = [];
  let postgres: EmbeddedPostgres | undefined;
  let stopping: Promise<void> | undefined;

  async function stopAll(): Promise<void> {
    for (const replica of replicas) replica.expectEnd();
    // The gateway first, so that no request is cut off; then all at once.
    await replicas.at(-1)?.stop();
    await Promise.all(replicas.map((replica) => replica.stop()));
    await postgres?.stop();
  }
  const stop = () => (stopping ??= stopAll());

  try {
    await takeAccount(settings, directory);
    const database = await openDatabase(settings, directory, logger);
    postgres = database.postgres;
    const place = { settings, directory, databaseUrl: database.url, logger };
    const sources = await prepare(place);
    replicas = await createReplicas(place);
    await Promise.all(replicas.map((replica) => replica.start()));
    const url = `http://localhost:${replicas.at(-1)?.port ?? 0}`;
    const credentials = await makeTenant(place, sources, url);
    return { url, directory, credentials, stop, databaseLost: whenLost(postgres) };
  } catch (error) {
    await stop().catch((failure: unknown) => logger.error(errorFields(failure), 'closing failed'));
    throw error;
  }
}

function whenLost(postgres: EmbeddedPostgres | undefined): Promise<void> {
  return new Promise((resolve) => postgres?.onExit(() => resolve()));
}
