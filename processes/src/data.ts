import { createPool, keepIndexPlans } from '@token-vault/postgres';
import { eventRegistry, onAlteredLog } from '@token-vault/contracts';
import { createKeyRing, dataKeyTable, type KeyRing } from '@token-vault/crypto';
import { EventStoreAccessError, type EventStore } from '@token-vault/event-store';
import { createPostgresEventStore, type PostgresEventStoreOptions } from '@token-vault/event-store/postgres';
import { createMissLimit, type MissLimit } from '@token-vault/http';
import { noteWrites, systemClock, type Revocations, type Space } from '@token-vault/operations';
import { projections } from '@token-vault/projectors';
import {
  createProjectionProgress,
  createRevocations,
  noteAppends,
  watchReadModels,
  type ProjectionProgress,
  type ReadModelWatch,
} from '@token-vault/read-models';
import {
  measureAppends,
  observeAlterations,
  observeFlushes,
  observeTenantKeys,
  traceAppends,
  type Logger,
  type Metrics,
  type Spans,
} from '@token-vault/observability';
import type pg from 'pg';
import type { Closers } from './closers.ts';
import { ignoreIdleConnectionErrors } from './ignore-idle-connection-errors.ts';
import { appendWithSpace } from './storage.ts';
import { createSharedCounter } from './misses.ts';
import { openRootKeys, type RootKeySources } from './root-keys.ts';

/** The place of the log: the vault's own Postgres, or an EventStoreDB. */
export type EventStoreChoice =
  | { readonly kind: 'postgres' }
  | {
      readonly kind: 'eventstoredb';
      readonly connectionString: string;
      /** When absent, the prefix that the log already uses. */
      readonly streamPrefix?: string | undefined;
    };

/** The settings by which every process reaches the data. */
export interface DataSettings {
  /**
   * The database of keys, read models and idempotent answers, and of the log unless the log is in an EventStoreDB.
   */
  readonly databaseUrl: string;
  readonly eventStore: EventStoreChoice;
}

/** The dependencies of every part of a process. */
export interface ProcessContext {
  readonly settings: DataSettings;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly spans: Spans;
  readonly closers: Closers;
  readonly storage: Space;
}

export interface OpenEventStoreOptions extends Pick<
  PostgresEventStoreOptions,
  'maxReadConnections' | 'onFlush'
> {
  /** An append is refused while the disk of the database is full. */
  readonly storage: Space;
}

/**
 * Opens the event store alone, without metrics. The caller closes it. @throws TypeError for an invalid connection
 * string
 */
export async function openEventStore(
  settings: DataSettings,
  { storage, ...options }: OpenEventStoreOptions,
): Promise<EventStore> {
  return appendWithSpace(await openAdapter(settings, options), storage);
}

async function openAdapter(
  { databaseUrl, eventStore }: DataSettings,
  options: Omit<OpenEventStoreOptions, 'storage'>,
): Promise<EventStore> {
  const registry = eventRegistry;
  if (eventStore.kind === 'postgres')
    return createPostgresEventStore({
      registry,
      connection: { connectionString: databaseUrl },
      keyTable: dataKeyTable,
      ...options,
    });
  // The client is large, so it is loaded only when it is used.
  const { createEventStoreDbEventStore } = await import('@token-vault/event-store/eventstoredb');
  const { connectionString, streamPrefix } = eventStore;
  return createEventStoreDbEventStore({ registry, connectionString, streamPrefix });
}

/** Checks the account of the event store. When the store does not answer yet, the start continues. */
async function requireAccess(store: EventStore): Promise<void> {
  try {
    await store.head();
  } catch (error) {
    if (error instanceof EventStoreAccessError) throw new StoreAccessError(error);
  }
}

/**
 * The account of EVENTSTOREDB_URL is unknown or lacks a right. The message is one line that names the setting and the
 * right.
 */
class StoreAccessError extends Error {
  readonly code = 'event_store_access';
  constructor(cause: EventStoreAccessError) {
    super(`EVENTSTOREDB_URL: ${cause.message}`, { cause });
  }
}

/** @throws StoreAccessError */
export async function openLog(context: ProcessContext): Promise<EventStore> {
  const { settings, metrics, spans, closers, storage } = context;
  const options = { onFlush: observeFlushes(metrics), storage };
  const store = closers.addConnection(await openEventStore(settings, options), (it) => it.close());
  if (settings.eventStore.kind === 'eventstoredb') await requireAccess(store);
  return noteWrites(traceAppends(measureAppends(store, metrics), spans));
}

/** A pool whose state Prometheus gets under `name`. */
export function openPool(
  { settings, metrics, logger, closers }: ProcessContext,
  name: string,
  max: number,
  options: Pick<pg.PoolConfig, 'onConnect' | 'statement_timeout'> = {},
): pg.Pool {
  const pool = createPool({
    connectionString: settings.databaseUrl,
    max,
    application_name: `vault ${name}`,
    connectionTimeoutMillis: 5_000,
    ...options,
  });
  ignoreIdleConnectionErrors(pool, () => logger.warn({ reason: name }, 'a database connection was lost'));
  metrics.watchPool(name, pool);
  return closers.addConnection(pool, (it) => it.end());
}

/** @throws WrongRootKeyError, RootKeyUnusableError, RootKeyUnavailableError */
export async function openKeyRing(context: ProcessContext, rootKeys: RootKeySources): Promise<KeyRing> {
  const pool = openPool(context, 'keys', 3, { onConnect: keepIndexPlans });
  const { metrics, logger, closers } = context;
  const onAltered = observeAlterations(metrics, logger);
  closers.add(onAlteredLog(onAltered), (stop) => Promise.resolve(stop()));
  return createKeyRing({
    pool,
    ...(await openRootKeys(rootKeys, pool)),
    clock: systemClock,
    durability: keyDurability(context.settings),
    onTenantKeys: observeTenantKeys(metrics),
    onAltered,
  });
}

/** A key needs no flush of its own when the append that follows checks for it in the same database. */
export const keyDurability = ({ eventStore }: DataSettings): 'own' | 'follows-log' =>
  eventStore.kind === 'postgres' ? 'follows-log' : 'own';

/** The time limit of a read. A look-up takes a thousandth of it, a search over a whole tenant seconds. */
const readLimits = { statement_timeout: 5_000 };

export interface ReadModels {
  /** The log. Its appends are reported to the watch. */
  readonly store: EventStore;
  readonly readPool: pg.Pool;
  readonly progress: ProjectionProgress;
  readonly watch: ReadModelWatch;
  readonly revocations: Revocations;
  /** One limit for searches, deduplication and expressions over data that the caller may not see. All processes share it. */
  readonly missLimit: MissLimit;
}

export async function openReadModels(context: ProcessContext, log: EventStore): Promise<ReadModels> {
  const { settings, logger, closers } = context;
  let heard: ReadModelWatch | undefined;
  const progress = await createProjectionProgress({
    connectionString: settings.databaseUrl,
    logger,
    unawaited: projections.filter(({ isAwaited }) => isAwaited === false).map(({ name }) => name),
    onStatusChange: () => heard?.forget(),
    // So a process that answers its first request for long knows how far a read model is behind.
    onToldMove: () => heard?.readSoon(),
    head: () => log.head(),
  });
  const watch = (heard = watchReadModels({ progress }));
  closers.addConnection(progress, (it) => it.close());
  const store = noteAppends(log, watch);
  const revocations = createRevocations({ pool: openPool(context, 'revocations', 2), progress });
  const readPool = openPool(context, 'reads', 6, readLimits);
  const missLimit = createMissLimit({ counter: createSharedCounter(readPool) });
  return { store, progress, watch, revocations, readPool, missLimit };
}
