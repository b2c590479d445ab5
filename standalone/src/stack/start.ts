import {
  Closers,
  openKeyRing,
  openLog,
  openReadModels,
  schema,
  watchStorage,
  type RootKeySources,
  type ProcessContext,
} from '@token-vault/processes';
import { migrate } from '@token-vault/processes/migrations';
import { startPosition, type EventStore } from '@token-vault/event-store';
import { createLogger, createMetrics, errorFields, noSpans, type Logger } from '@token-vault/observability';
import { freePorts } from '@token-vault/process';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { takeAccount } from '../account/service-account.ts';
import { makeFirstTenant, type Credentials } from '../credentials.ts';
import { makeDataDirectory, type DataDirectory } from '../data-directory.ts';
import { requireReachable } from '../external-database.ts';
import type { OnAnswering, RunningStandalone } from '../start.ts';
import { createFirstTenant } from '../vault.ts';
import { descriptionWriter } from './describe.ts';
import { startLastingPostgres, type LastingPostgres } from './lasting-postgres.ts';
import { Replica } from './replica.ts';
import type { StackSettings } from './settings.ts';

/** In the order they are started; the gateway comes last. */
const services = ['projectors', 'command-service', 'query-service', 'reactor-runner', 'proxy'] as const;

/** Only the gateway is reachable from other machines. */
const loopback = '127.0.0.1';

/** For the operator's own Postgres, which this process does not start. */
const never = new Promise<never>(() => undefined);

/** The connections to Postgres of one replica: each process has its own pools. */
const connectionsPerReplica = 80;

interface Place {
  readonly settings: StackSettings;
  readonly directory: DataDirectory;
  readonly databaseUrl: string;
  /** A directory on the disk of the database, if this machine has it. */
  readonly storagePath: string | undefined;
  readonly logger: Logger;
}

/**
 * The environment of the processes: all variables of this process, and the addresses of the servers that this process started.
 */
function environmentOf({ settings, directory, databaseUrl, storagePath }: Place): NodeJS.ProcessEnv {
  const { trustProxy = 0 } = settings;
  return {
    // Half of the time of a start is the stripping of types.
    NODE_COMPILE_CACHE: path.join(tmpdir(), 'token-vault-compile-cache'),
    ...process.env,
    DATABASE_URL: databaseUrl,
    ...(storagePath === undefined ? {} : { VAULT_STORAGE_PATH: storagePath }),
    VAULT_HOST: loopback,
    // The gateway is one more hop.
    VAULT_TRUST_PROXY: typeof trustProxy === 'number' ? String(trustProxy + 1) : `loopback, ${trustProxy}`,
    // Also beside a key in transit: while the vault moves there, the key in use is still in the file.
    VAULT_ROOT_KEY_FILE: directory.rootKeyFile,
    VAULT_CHECKPOINTS_FILE: settings.checkpointsFile ?? directory.checkpointsFile,
  };
}

/** Makes the tables, the root key of a new vault, and its first tenant. No service makes these. */
async function prepare(place: Place): Promise<RootKeySources> {
  const { settings, directory, databaseUrl } = place;
  // An account that may not use the log is reported once here, before every process reports it.
  await withLog(place, () => Promise.resolve());
  await migrate(databaseUrl, schema);
  const sources = { ...settings, rootKeyFile: directory.rootKeyFile };
  // So is a wrong root key.
  await withLog(place, (context) => openKeyRing(context, sources));
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

/** Opens the log, runs `work`, and closes the log. */
async function withLog<Result>(
  { settings, databaseUrl, storagePath, logger }: Place,
  work: (context: ProcessContext, store: EventStore) => Promise<Result>,
): Promise<Result> {
  const closers = new Closers();
  try {
    const metrics = createMetrics('stack');
    const watched = await watchStorage({ path: storagePath, logger, metrics });
    const storage = closers.add(watched, (it) => it.close());
    const context = {
      ...{ settings: { ...settings, databaseUrl }, logger, metrics, spans: noSpans, closers },
      storage,
    };
    return await work(context, await openLog(context));
  } finally {
    await closers.close();
  }
}

async function createReplicas(place: Place, onChange: () => void): Promise<readonly Replica[]> {
  const { settings, logger } = place;
  const environment = environmentOf(place);
  const replicas: Replica[] = [];
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
    // The port chosen for the gateway may be among the free ports.
    add(`${service} ${number}`, `processes/src/${service}.ts`, port === gatewayPort ? first : port);
  });
  const urlsOf = (service: string) =>
    replicas
      .filter(({ name }) => name.startsWith(service))
      .map(({ port }) => `http://${loopback}:${port}`)
      .join(',');
  add('gateway', 'gateway/src/main.ts', gatewayPort, {
    VAULT_HOST: settings.host,
    VAULT_TRUST_PROXY: String(settings.trustProxy ?? ''),
    COMMAND_SERVICE_URLS: urlsOf('command-service'),
    QUERY_SERVICE_URLS: urlsOf('query-service'),
    PROXY_URLS: urlsOf('proxy'),
  });
  return replicas;
}

async function openDatabase(
  { databaseUrl, replicas }: StackSettings,
  directory: DataDirectory,
  { logger, onChange }: { readonly logger: Logger; readonly onChange: () => void },
) {
  if (databaseUrl !== undefined) {
    await requireReachable(databaseUrl);
    return { url: databaseUrl, postgres: undefined };
  }
  const settings = { max_connections: 20 + connectionsPerReplica * replicas };
  const postgres = await startLastingPostgres({ dataDir: directory.postgres, logger, settings, onChange });
  return { url: postgres.url, postgres };
}

/**
 * Starts a vault as separate processes on this machine, several of each service, and restarts those that end by
 * themselves.
 * @throws as `startStandalone`, and ConfigurationError
 */
export async function startStack(
  settings: StackSettings,
  onAnswering: OnAnswering,
): Promise<RunningStandalone> {
  const logger = createLogger({ service: 'stack', level: settings.logLevel });
  const directory = await makeDataDirectory(settings.dataDir);
  let replicas: readonly Replica[] = [];
  let postgres: LastingPostgres | undefined;
  let stopping: Promise<void> | undefined;
  const onChange = descriptionWriter(directory, () => [
    ...(postgres ? [{ name: 'postgres', pid: postgres.pid }] : []),
    ...replicas,
  ]);

  async function stopAll(): Promise<void> {
    for (const replica of replicas) replica.expectEnd();
    // The gateway stops first, so that no request is cut off. The projectors stop last, because ending reactors read
    // their own writes.
    const projectors = replicas.filter(({ name }) => name.startsWith('projectors'));
    await replicas.at(-1)?.stop();
    await Promise.all(replicas.filter((each) => !projectors.includes(each)).map((each) => each.stop()));
    await Promise.all(projectors.map((each) => each.stop()));
    await postgres?.stop();
  }
  const stop = () => (stopping ??= stopAll());

  try {
    await takeAccount(settings, directory);
    const database = await openDatabase(settings, directory, { logger, onChange });
    postgres = database.postgres;
    const storagePath = settings.storagePath ?? (postgres && directory.postgres);
    const place = { settings, directory, databaseUrl: database.url, storagePath, logger };
    const sources = await prepare(place);
    replicas = await createReplicas(place, onChange);
    onAnswering(stop);
    await Promise.all(replicas.map((replica) => replica.start()));
    const url = `http://localhost:${replicas.at(-1)?.port ?? 0}`;
    const credentials = await makeTenant(place, sources, url);
    return { url, directory, credentials, stop, databaseLost: postgres?.lost ?? never };
  } catch (error) {
    await stop().catch((failure: unknown) => logger.error(errorFields(failure), 'closing failed'));
    throw error;
  }
}
