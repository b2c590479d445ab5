import { createTenantCommands } from '@token-vault/command-service';
import type { KeyRing } from '@token-vault/crypto';
import { startPosition, type EventStore } from '@token-vault/event-store';
import {
  Closers,
  consoleFiles,
  commandHandlers,
  createFeed,
  createServiceApp,
  measureProjections,
  openExpressions,
  openHousekeeping,
  openKeyRing,
  openLog,
  openOperator,
  openProxy,
  openReactorParts,
  openReadModels,
  openRunner,
  openServiceParts,
  queryHandlers,
  reportDatabaseRights,
  schema,
  watchStorage,
  traceProjections,
  type EventStoreChoice,
  type FeedChoice,
  type LimitConfig,
  type RootKeySettings,
  type ServiceParts,
  type ProcessContext,
} from '@token-vault/processes';
import { migrate } from '@token-vault/processes/migrations';
import { projections, startProjectors } from '@token-vault/projectors';
import { createAuditTrail, systemClock } from '@token-vault/operations';
import {
  createMetrics,
  noSpans,
  openSpans,
  type Logger,
  type TraceSettings,
} from '@token-vault/observability';
import type { ProjectionProgress } from '@token-vault/read-models';
import type { Express } from 'express';
import { makeFirstTenant, type Credentials } from './credentials.ts';
import type { StandaloneConfig } from './config.ts';
import type { DataDirectory } from './data-directory.ts';

export interface VaultOptions extends LimitConfig, RootKeySettings {
  readonly databaseUrl: string;
  /** No other vault can use this database: one that used it before has ended. */
  readonly isAlone: boolean;
  readonly directory: DataDirectory;
  readonly baseUrl: string;
  /** VAULT_EGRESS_ALLOW. */
  readonly egressAllow?: readonly string[];
  /** VAULT_SANDBOX_UIDS. */
  readonly sandboxAccounts?: StandaloneConfig['sandboxAccounts'];
  /** VAULT_REACTOR_RUNS_PER_TENANT. */
  readonly runsPerTenant?: number | undefined;
  /** VAULT_CHECKPOINTS_FILE. Undefined: in the directory. */
  readonly checkpointsFile?: string | undefined;
  readonly logger: Logger;
  /** A directory on the disk of the database, if this process sees it. */
  readonly storagePath?: string | undefined;
  /** OTEL_EXPORTER_OTLP_ENDPOINT */
  readonly traces?: TraceSettings | undefined;
}

export interface Vault {
  readonly app: Express;
  /** Set only at the first start. */
  readonly credentials: Credentials | undefined;
  close(): Promise<void>;
}

/** On one machine the one Postgres holds all of it, and no broker is needed. */
const eventStore: EventStoreChoice = { kind: 'postgres' };
const feed: FeedChoice = { kind: 'direct' };

/** A failed or very long replay must not keep the vault down for ever. */
const catchUpMs = 30_000;

async function openParts(options: VaultOptions, context: ProcessContext): Promise<ServiceParts> {
  const { settings, logger, closers, metrics, spans } = context;
  await migrate(settings.databaseUrl, schema);
  const keyRing = await openKeyRing(context, {
    ...options,
    rootKeyFile: options.directory.rootKeyFile,
  });
  const log = await openLog(context);
  const projectors = closers.addConnection(
    startProjectors({
      store: log,
      connectionString: settings.databaseUrl,
      logger,
      ...traceProjections(spans),
    }),
    (it) => it.close(),
  );
  measureProjections(metrics, { store: log, status: () => projectors.status() });
  const data = { keyRing, ...(await openReadModels(context, log)) };
  const checkpointsFile = options.checkpointsFile ?? options.directory.checkpointsFile;
  openHousekeeping(context, { ...data, checkpointsFile });
  return openServiceParts(context, data, options);
}

/** Both services and the runner of reactors, in one app. */
async function createVaultApp(
  parts: ServiceParts,
  options: VaultOptions,
  context: ProcessContext,
): Promise<Express> {
  const { store, readPool: pool } = parts;
  const { logger } = context;
  const egressAllow = options.egressAllow ?? [];
  const { sandboxAccounts: accounts, runsPerTenant } = options;
  const reactors = openReactorParts(context, store, { accounts, runsPerTenant });
  const expressions = openExpressions(context);
  const operator = openOperator(context, parts, options);
  const handlers = {
    ...commandHandlers({ ...parts, expressions }, reactors, { egressAllow, logger, operator }),
    ...queryHandlers({ ...parts, expressions }, operator),
  };
  const proxy = openProxy(context, { ...parts, expressions, reactors, handlers }, { egressAllow });
  const runner = {
    ...parts,
    expressions,
    reactors,
    handlers,
    feed: await createFeed(feed, { store, pool, logger }),
  };
  openRunner(context, runner, { egressAllow, runsPerTenant });
  const { proxyKeys } = proxy;
  const shown = { ...parts, expressions, proxyKeys, consoleFiles };
  return createServiceApp(context, shown, { ...handlers, ...proxy.handlers });
}

/** Builds the vault on a Postgres: log, keys, read models and both services, in this process. */
export async function openVault(options: VaultOptions): Promise<Vault> {
  const { databaseUrl, logger } = options;
  const closers = new Closers();
  const metrics = createMetrics('standalone');
  const spans = options.traces
    ? closers.add(await openSpans('standalone', options.traces), (it) => it.close())
    : noSpans;
  const watched = await watchStorage({ path: options.storagePath, logger, metrics });
  const storage = closers.add(watched, (it) => it.close());
  const context = { settings: { databaseUrl, eventStore }, logger, metrics, spans, closers, storage };
  try {
    const [parts] = await Promise.all([openParts(options, context), reportDatabaseRights(context)]);
    // After a crash the read models are a little behind the log. Requests are accepted only when they have caught up.
    // The names are given, because a read model that is new in this release has no checkpoint until its projector has
    // made it.
    const names = projections.map(({ name }) => name);
    const isCaughtUp = await parts.progress.waitFor(await parts.store.head(), catchUpMs, names);
    if (!isCaughtUp) logger.warn({}, 'the read models are behind; see /health/ready');
    const app = await createVaultApp(parts, options, context);
    const credentials = await makeFirstTenant({
      file: options.directory.credentialsFile,
      baseUrl: options.baseUrl,
      isLogEmpty: async () => (await parts.store.head()) === startPosition,
      create: (tenantId) => createFirstTenant({ ...parts, logger }, tenantId),
    });
    return { app, credentials, close: () => closers.close() };
  } catch (error) {
    await closers.close();
    throw error;
  }
}

export interface FirstTenantParts {
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  readonly progress: ProjectionProgress;
  readonly logger: Logger;
}

/** The first tenant of a new vault. A repeat with the same id makes no second one. */
export async function createFirstTenant(
  { store, keyRing, progress, logger }: FirstTenantParts,
  tenantId: string,
): Promise<{ managementKey: string }> {
  const audit = createAuditTrail(store);
  const tenants = createTenantCommands({ store, keyRing, audit, clock: systemClock, logger });
  const { management, position } = await tenants.create({
    name: 'First tenant',
    plan: 'enterprise',
    tenantId,
  });
  if (position !== undefined) await progress.waitFor(position, 10_000);
  if (management.key === undefined) throw new Error('the first application has no key');
  return { managementKey: management.key };
}
