import type { EventStore } from '@token-vault/event-store';
import { createPool } from '@token-vault/postgres';
import type { Projection } from './projection.ts';
import { projections as allProjections } from './projections/index.ts';
import { rebuildProjection } from './rebuild/rebuild.ts';
import { RebuildUnderWayError } from './rebuild/successor.ts';
import { createCheckpointAdvancer } from './runner/checkpoint-advancer.ts';
import { hearReaders, Hurries } from './runner/hurries.ts';
import {
  runProjection,
  type LeadingObserver,
  type Logger,
  type ShownObserver,
} from './runner/run-projection.ts';
import { readProjectionStatus, type ProjectionStatus } from './status.ts';

export interface ProjectorOptions {
  readonly store: EventStore;
  /**
   * `projectorMigrations` must be applied. Each projection opens its own session; a transaction pooler between cannot
   * be used.
   */
  readonly connectionString: string;
  /** All projections of the product by default. */
  readonly projections?: readonly Projection[];
  readonly logger?: Logger;
  /** The greatest number of events of one transaction. */
  readonly maxBatch?: number;
  /** How long live events that can wait are held, to be written together with later ones; 100 by default. */
  readonly maxHoldMs?: number;
  /** Called with the events that a live read model has just shown, not with those of a replay. */
  readonly onShown?: ShownObserver;
  readonly onLeading?: LeadingObserver;
}

export interface Projectors {
  /** Read from the database, so every replica gives the same. */
  status(): Promise<ProjectionStatus[]>;
  /** Ends within about a second. The next leader replays the events that are not committed. */
  close(): Promise<void>;
}

const silent: Logger = { info: () => {}, warn: () => {}, error: () => {} };

/**
 * Keeps the read models up to date until closed. Any number of processes may run it on one database: each projection
 * has one leader, and the other processes stand by.
 */
export function startProjectors(options: ProjectorOptions): Projectors {
  const {
    store,
    connectionString,
    projections = allProjections,
    logger = silent,
    maxBatch = 2_000,
    maxHoldMs = 100,
    onShown,
    onLeading,
  } = options;
  const abort = new AbortController();
  const pool = createPool({ connectionString, max: 1, application_name: 'projector status' });
  pool.on('error', () => {});
  const checkpointAdvancer = createCheckpointAdvancer(connectionString);
  const hurries = new Hurries(maxHoldMs);
  const gathering = { maxBatch, maxHoldMs, hurries };
  const observers = { onShown, onLeading };
  const context = {
    ...{ store, connectionString, logger, checkpointAdvancer },
    replace: createReplacement({ store, connectionString, logger, maxBatch }),
    ...gathering,
    ...observers,
  };
  const hearing = hearReaders(connectionString, hurries, abort.signal);
  const runs = projections.map((projection) => runProjection(projection, context, abort.signal));
  return {
    status: () => readProjectionStatus(pool),
    async close() {
      abort.abort();
      await Promise.all([hearing, ...runs]);
      await checkpointAdvancer.close();
      if (!pool.ended) await pool.end();
    },
  };
}

interface ReplacementParts {
  readonly store: ProjectorOptions['store'];
  readonly connectionString: string;
  readonly logger: Logger;
  readonly maxBatch: number;
}

/** Rebuilds a projection that is older than this release. */
function createReplacement({ store, connectionString, logger, maxBatch }: ReplacementParts) {
  return async (projection: Projection, signal: AbortSignal): Promise<void> => {
    const { name, version } = projection;
    logger.info({ projection: name, version }, 'projection is older than this release: rebuilding it');
    try {
      const rebuild = { store, connectionString, maxBatch, signal, onProgress: () => {} };
      const outcome = await rebuildProjection(projection, rebuild);
      logger.info({ projection: name, version, outcome }, 'projection rebuilt');
    } catch (error) {
      // An operator or another replica is rebuilding. The checkpoint is read again after a moment.
      if (!(error instanceof RebuildUnderWayError)) throw error;
    }
  };
}
