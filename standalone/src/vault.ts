import { createTenantCommands } from '@token-vault/command-service';
import type { KeyRing } from '@token-vault/crypto';
import { startPosition, type EventStore } from '@token-vault/event-store';
import {
  Closers,
  commandHandlers,
  createFeed,
  createServiceApp,
  measureProjections,
  openExpressions,
  openHousekeeping,
  openKeyRing,
  openLog,
  openReactorParts,
  openReadModels,
  openRunner,
  openServiceParts,
  queryHandlers,
  schema,
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
import {
  createAuditTrail,
  createMetrics,
  noSpans,
  openSpans,
  systemClock,
  type Logger,
  type ProjectionProgress,
  type TraceSettings,
} from '@token-vault/service-kit';
import type { Express } from 'express';
import { makeFirstTenant, type Credentials } from './credentials.ts';
import type { StandaloneConfig } from './config.ts';
import type { DataDirectory } from './data-directory.ts';

export interface VaultOptions extends LimitConfig, RootKeySettings {
  readonly databaseUrl: string;
  readonly directory: DataDirectory;
  readonly baseUrl: string;
  /** VAULT_EGRESS_ALLOW. */
  readonly egressAllow?: readonly string[];
  /** VAULT_SANDBOX_UIDS. */
  readonly sandboxAccounts?: StandaloneConfig['sandboxAccounts'];
  readonly logger: Logger;
  /** OTEL_EXPORTER_OTLP_ENDPOINT */
  readonly traces?: TraceSettings | undefined;
}

export interface Vault {
  readonly app: Express;
  /** Only at the first start. */
  readonly credentials: Credentials | undefined;
  close(): Promise<void>;
}

/** On one machine all of it is in the one Postgres, and needs no broker. */
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
  const projectors = closers.add(
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
  openHousekeeping(context, data);
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
  const reactors = openReactorParts(context, store, options.sandboxAccounts);
  const expressions = openExpressions(context);
  const handlers = {
    ...commandHandlers({ ...parts, expressions }, reactors, { egressAllow, logger }),
    ...queryHandlers({ ...parts, expressions }),
  };
  const runner = {
    ...parts,
    expressions,
    reactors,
    handlers,
    feed: await createFeed(feed, { store, pool, logger }),
  };
  openRunner(context, runner, { egressAllow });
  return createServiceApp(context, { ...parts, expressions }, handlers);
}

/** Puts the vault together on a Postgres: log, keys, read models, both services, in this process. */
export async function openVault(options: VaultOptions): Promise<Vault> {
  const { databaseUrl, logger } = options;
  const closers = new Closers();
  const metrics = createMetrics('standalone');
  const spans = options.traces
    ? closers.add(await openSpans('standalone', options.traces), (it) => it.close())
    : noSpans;
  const context = { settings: { databaseUrl, eventStore }, logger, metrics, spans, closers };
  try {
    const parts = await openParts(options, context);
    // After a crash the read models are a little behind the log: nobody is let in before they have caught up.
    // By name, because one that is new in this release is not there until its projector has made it.
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

/** The tenant that a new vault begins with. Repeatable by its id. */
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
