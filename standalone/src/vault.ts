import {
  createCommandHandlers,
  createTenantCommands,
  housekeepingMigrations,
  startHousekeeping,
} from '@token-vault/command-service';
import { createOpenApiDocument, eventRegistry } from '@token-vault/contracts';
import { createKeyRing, keyRingMigrations, type KeyRing } from '@token-vault/crypto';
import { startPosition, type EventStore } from '@token-vault/event-store';
import { createPostgresEventStore, eventStoreMigrations } from '@token-vault/event-store/postgres';
import { projections, projectorMigrations, startProjectors, type Projectors } from '@token-vault/projectors';
import { createQueryHandlers } from '@token-vault/query-service';
import { invocationFeedMigrations } from '@token-vault/reactor-runner';
import {
  createApp,
  createAuditTrail,
  createProjectionProgress,
  finishApp,
  idempotencyMigrations,
  mountHealth,
  mountReference,
  systemClock,
  type Logger,
  type ProjectionProgress,
} from '@token-vault/service-kit';
import type { Express } from 'express';
import { createRequire } from 'node:module';
import pg from 'pg';
import { startSealer } from './audit/sealer.ts';
import { makeFirstTenant, type Credentials } from './credentials.ts';
import type { DataDirectory } from './data-directory.ts';
import { openEdge, type Edge } from './edge.ts';
import type { LimitConfig } from './limits.ts';
import { migrate, type MigrationSet } from './migrations/index.ts';
import { createReactorParts, startReactors } from './reactors/start.ts';
import type { RootKeySettings } from './root-key-settings.ts';
import { openRootKeys } from './root-keys.ts';

export interface VaultOptions extends LimitConfig, RootKeySettings {
  readonly databaseUrl: string;
  readonly directory: DataDirectory;
  readonly baseUrl: string;
  /** VAULT_EGRESS_ALLOW. */
  readonly egressAllow?: readonly string[];
  readonly logger: Logger;
}

export interface Vault {
  readonly app: Express;
  /** Only at the first start. */
  readonly credentials: Credentials | undefined;
  close(): Promise<void>;
}

/** Of the release, as its package says. */
const { version } = createRequire(import.meta.url)('../package.json') as { version: string };

/** All tables but those of read models, which their projections make. */
export const schema: readonly MigrationSet[] = [
  { name: 'event-store', migrations: eventStoreMigrations },
  { name: 'key-ring', migrations: keyRingMigrations },
  { name: 'projectors', migrations: projectorMigrations },
  { name: 'housekeeping', migrations: housekeepingMigrations },
  { name: 'invocations', migrations: invocationFeedMigrations },
  { name: 'idempotency', migrations: idempotencyMigrations },
];

/** A failed or very long replay must not keep the vault down for ever. */
const catchUpMs = 30_000;

/** A stack of what must be closed, last opened first. */
export class Closers {
  readonly #closers: (() => Promise<unknown>)[] = [];
  add<Resource>(resource: Resource, close: (resource: Resource) => Promise<unknown>): Resource {
    this.#closers.push(() => close(resource));
    return resource;
  }
  async close(): Promise<void> {
    for (const close of this.#closers.splice(0).reverse()) await close();
  }
}

export function createPool(connectionString: string, max: number, name: string, logger: Logger): pg.Pool {
  const pool = new pg.Pool({ connectionString, max, application_name: name, connectionTimeoutMillis: 5_000 });
  // An idle connection that the server closes is replaced at the next use.
  pool.on('error', () => logger.warn({ reason: name }, 'a database connection was lost'));
  return pool;
}

interface Parts {
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  readonly projectors: Projectors;
  readonly progress: ProjectionProgress;
  readonly readPool: pg.Pool;
  readonly edge: Edge;
}

async function openParts(options: VaultOptions, closers: Closers): Promise<Parts> {
  const { databaseUrl, logger } = options;
  await migrate(databaseUrl, schema);
  const end = (pool: pg.Pool) => pool.end();
  const keyPool = closers.add(createPool(databaseUrl, 3, 'vault keys', logger), end);
  const keyRing = await createKeyRing({
    pool: keyPool,
    ...(await openRootKeys({ ...options, rootKeyFile: options.directory.rootKeyFile }, keyPool)),
    clock: systemClock,
    durability: 'follows-log',
  });
  const connection = { connectionString: databaseUrl };
  const store = closers.add(createPostgresEventStore({ registry: eventRegistry, connection }), (it) =>
    it.close(),
  );
  const projectors = closers.add(startProjectors({ store, connectionString: databaseUrl, logger }), (it) =>
    it.close(),
  );
  const progress = closers.add(
    await createProjectionProgress({ connectionString: databaseUrl, logger }),
    (it) => it.close(),
  );
  const readPool = closers.add(createPool(databaseUrl, 6, 'vault reads', logger), end);
  const housekeeping = {
    store,
    keyRing,
    pool: readPool,
    connectionString: databaseUrl,
    clock: systemClock,
    logger,
  };
  closers.add(startHousekeeping(housekeeping), (it) => it.close());
  closers.add(startSealer(housekeeping), (it) => it.close());
  const writePool = closers.add(createPool(databaseUrl, 4, 'vault idempotency', logger), end);
  const edge = closers.add(await openEdge({ ...options, readPool, writePool, keyRing }), (it) => it.close());
  return { store, keyRing, projectors, progress, readPool, edge };
}

function createVaultApp(parts: Parts, options: VaultOptions, closers: Closers): Express {
  const { store, keyRing, projectors, progress, readPool, edge } = parts;
  const { logger, databaseUrl, egressAllow = [] } = options;
  const audit = createAuditTrail(store);
  const clock = systemClock;
  const reactors = createReactorParts(store, logger);
  const { compileCode, outcomes } = reactors;
  const invocations = { outcomes, allowsPlainHttp: egressAllow.length > 0 };
  const handlers = {
    ...createCommandHandlers({ store, keyRing, audit, clock, logger, compileCode, invocations }),
    ...createQueryHandlers({
      pool: readPool,
      store,
      keyRing,
      audit,
      waitForProjections: (position, timeoutMs, names) => progress.waitFor(position, timeoutMs, names),
    }),
  };
  const common = { handlers, store, keyRing, audit, progress, pool: readPool, databaseUrl, clock, logger };
  closers.add(startReactors({ ...common, parts: reactors, egressAllow }), (it) => it.close());
  const app = createApp({ ...edge, handlers, audit, progress, clock, logger });
  const checks = {
    event_store: async () => void (await store.head()),
    projections: async () => {
      const statuses = await projectors.status();
      const shown = statuses.map(({ name, version, status, position }) => ({
        name,
        version,
        status,
        position,
      }));
      if (statuses.length === 0 || shown.some(({ status }) => status !== 'live'))
        throw new Error('not all are live');
      return shown;
    },
  };
  mountHealth(app, checks, logger);
  mountReference(app, createOpenApiDocument({ serverUrl: '/', version }));
  finishApp(app, logger);
  return app;
}

/** Puts the vault together on a Postgres: log, keys, read models, both services, in this process. */
export async function openVault(options: VaultOptions): Promise<Vault> {
  const closers = new Closers();
  try {
    const parts = await openParts(options, closers);
    // After a crash the read models are a little behind the log: nobody is let in before they have caught up.
    // By name, because one that is new in this release is not there until its projector has made it.
    const names = projections.map(({ name }) => name);
    const isCaughtUp = await parts.progress.waitFor(await parts.store.head(), catchUpMs, names);
    if (!isCaughtUp) options.logger.warn({}, 'the read models are behind; see /health/ready');
    const app = createVaultApp(parts, options, closers);
    const credentials = await makeFirstTenant({
      file: options.directory.credentialsFile,
      baseUrl: options.baseUrl,
      isLogEmpty: async () => (await parts.store.head()) === startPosition,
      create: (tenantId) => createFirstTenant(parts, options.logger, tenantId),
    });
    return { app, credentials, close: () => closers.close() };
  } catch (error) {
    await closers.close();
    throw error;
  }
}

async function createFirstTenant({ store, keyRing, progress }: Parts, logger: Logger, tenantId: string) {
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
