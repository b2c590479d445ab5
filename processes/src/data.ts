import { keepIndexPlans } from '@token-vault/batching';
import { eventRegistry } from '@token-vault/contracts';
import { createKeyRing, dataKeyTable, type KeyRing } from '@token-vault/crypto';
import { EventStoreAccessError, type EventStore } from '@token-vault/event-store';
import { createPostgresEventStore, type PostgresEventStoreOptions } from '@token-vault/event-store/postgres';
import { projections } from '@token-vault/projectors';
import {
  createProjectionProgress,
  createRevocations,
  measureAppends,
  noteAppends,
  observeAlterations,
  observeFlushes,
  observeTenantKeys,
  systemClock,
  traceAppends,
  watchReadModels,
  type Logger,
  type Metrics,
  type ProjectionProgress,
  type ReadModelWatch,
  type Revocations,
  type Spans,
} from '@token-vault/service-kit';
import pg from 'pg';
import type { Closers } from './closers.ts';
import { ignoreIdleConnectionErrors } from './ignore-idle-connection-errors.ts';
import { openRootKeys, type RootKeySources } from './root-keys.ts';

/** Where the log is: in the vault's own Postgres, or in an EventStoreDB. */
export type EventStoreChoice =
  | { readonly kind: 'postgres' }
  | {
      readonly kind: 'eventstoredb';
      readonly connectionString: string;
      /** What the log is found to have if absent. */
      readonly streamPrefix?: string | undefined;
    };

/** What every process needs to reach the data. */
export interface DataSettings {
  /** Of keys, read models and idempotent answers, and of the log unless that is in an EventStoreDB. */
  readonly databaseUrl: string;
  readonly eventStore: EventStoreChoice;
}

/** What every part is given. */
export interface ProcessContext {
  readonly settings: DataSettings;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly spans: Spans;
  readonly closers: Closers;
}

/** The event store alone, not measured. The caller closes it. @throws TypeError for a connection string that cannot work */
export async function openEventStore(
  { databaseUrl, eventStore }: DataSettings,
  options: Pick<PostgresEventStoreOptions, 'maxReadConnections' | 'onFlush'> = {},
): Promise<EventStore> {
  const registry = eventRegistry;
  if (eventStore.kind === 'postgres')
    return createPostgresEventStore({
      registry,
      connection: { connectionString: databaseUrl },
      keyTable: dataKeyTable,
      ...options,
    });
  // Its client is large: loaded where it is used.
  const { createEventStoreDbEventStore } = await import('@token-vault/event-store/eventstoredb');
  const { connectionString, streamPrefix } = eventStore;
  return createEventStoreDbEventStore({ registry, connectionString, streamPrefix });
}

/** Checks the account of the event store. A store that does not answer yet does not end the start. */
async function requireAccess(store: EventStore): Promise<void> {
  try {
    await store.head();
  } catch (error) {
    if (error instanceof EventStoreAccessError) throw new StoreAccessError(error);
  }
}

/** The account of EVENTSTOREDB_URL is not known, or lacks a right. The message is one line that names the setting and the right. */
export class StoreAccessError extends Error {
  readonly code = 'event_store_access';
  constructor(cause: EventStoreAccessError) {
    super(`EVENTSTOREDB_URL: ${cause.message}`, { cause });
  }
}

/** @throws StoreAccessError */
export async function openLog({ settings, metrics, spans, closers }: ProcessContext): Promise<EventStore> {
  const store = closers.add(await openEventStore(settings, { onFlush: observeFlushes(metrics) }), (it) =>
    it.close(),
  );
  if (settings.eventStore.kind === 'eventstoredb') await requireAccess(store);
  return traceAppends(measureAppends(store, metrics), spans);
}

/** A pool whose state Prometheus is told under `name`. */
export function openPool(
  { settings, metrics, logger, closers }: ProcessContext,
  name: string,
  max: number,
  options: Pick<pg.PoolConfig, 'onConnect' | 'statement_timeout'> = {},
): pg.Pool {
  const pool = new pg.Pool({
    connectionString: settings.databaseUrl,
    max,
    application_name: `vault ${name}`,
    connectionTimeoutMillis: 5_000,
    ...options,
  });
  ignoreIdleConnectionErrors(pool, () => logger.warn({ reason: name }, 'a database connection was lost'));
  metrics.watchPool(name, pool);
  return closers.add(pool, (it) => it.end());
}

/** @throws WrongRootKeyError, RootKeyUnusableError, RootKeyUnavailableError */
export async function openKeyRing(context: ProcessContext, rootKeys: RootKeySources): Promise<KeyRing> {
  const pool = openPool(context, 'keys', 3, { onConnect: keepIndexPlans });
  return createKeyRing({
    pool,
    ...(await openRootKeys(rootKeys, pool)),
    clock: systemClock,
    durability: keyDurability(context.settings),
    onTenantKeys: observeTenantKeys(context.metrics),
    onAltered: observeAlterations(context.metrics, context.logger),
  });
}

/** A key need not be flushed by itself where the append that follows it looks for it in the same database. */
export const keyDurability = ({ eventStore }: DataSettings): 'own' | 'follows-log' =>
  eventStore.kind === 'postgres' ? 'follows-log' : 'own';

/** What a read may take. A look-up takes a thousandth of it, a search over a whole tenant seconds. */
const readLimits = { statement_timeout: 5_000 };

export interface ReadModels {
  /** The log, of whose appends the watch hears. */
  readonly store: EventStore;
  readonly readPool: pg.Pool;
  readonly progress: ProjectionProgress;
  readonly watch: ReadModelWatch;
  readonly revocations: Revocations;
}

export async function openReadModels(context: ProcessContext, log: EventStore): Promise<ReadModels> {
  const { settings, logger, closers } = context;
  let heard: ReadModelWatch | undefined;
  const progress = await createProjectionProgress({
    connectionString: settings.databaseUrl,
    logger,
    unawaited: projections.filter(({ isAwaited }) => isAwaited === false).map(({ name }) => name),
    hurry: (position) => log.hurry(position),
    onStatusChange: () => heard?.forget(),
  });
  const watch = (heard = watchReadModels({ progress }));
  closers.add(progress, (it) => it.close());
  const store = noteAppends(log, watch);
  const revocations = createRevocations({ pool: openPool(context, 'revocations', 2), progress });
  return { store, progress, watch, revocations, readPool: openPool(context, 'reads', 6, readLimits) };
}
