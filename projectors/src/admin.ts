import type { EventStore, Position } from '@token-vault/event-store';
import type pg from 'pg';
import type { Projection } from './projection.ts';
import { projections as allProjections } from './projections/index.ts';
import { rebuildProjection, type RebuildOutcome } from './rebuild/rebuild.ts';
import { dropSuccessor, UnknownProjectionError } from './rebuild/successor.ts';
import { verifyProjection, type Verification } from './rebuild/verify.ts';
import { openSession, type Session } from './runner/session.ts';
import { statement } from './runner/statements.ts';
import { readProjectionStatus, type ProjectionStatus } from './status.ts';

export interface ProjectionAdminOptions {
  readonly store: EventStore;
  readonly connectionString: string;
  readonly projections?: readonly Projection[];
  readonly maxBatch?: number;
}

export interface RunOptions {
  /** Stops the work at its present position. The next call of the same kind continues there. */
  readonly signal?: AbortSignal;
  /**
   * Called after each batch with the position of the successor, the position it must reach, and the number of events
   * of the batch.
   */
  readonly onProgress?: (position: Position, until: Position, events: number) => void;
}

/** The commands of an operator on projections. They work beside running projectors, from any process. */
export interface ProjectionAdmin {
  status(): Promise<ProjectionStatus[]>;
  /** @throws UnknownProjectionError, RebuildUnderWayError, RebuildFailedError. */
  rebuild(name: string, options?: RunOptions): Promise<RebuildOutcome>;
  /** @throws as `rebuild`. Undefined when the verification was cancelled or aborted. */
  verify(name: string, options?: RunOptions): Promise<Verification | undefined>;
  /** Pauses the rebuild if one is under way, else the live projection. */
  pause(name: string): Promise<'rebuild' | 'live' | 'nothing'>;
  /** Resumes a paused or failed rebuild if there is one, else the live projection. */
  resume(name: string): Promise<'rebuild' | 'live' | 'nothing'>;
  /**
   * Drops a rebuild that is under way or was left by a killed process. False when there is none. The live read model
   * is not touched.
   */
  cancel(name: string): Promise<boolean>;
}

export function createProjectionAdmin(options: ProjectionAdminOptions): ProjectionAdmin {
  const { store, connectionString, projections = allProjections, maxBatch = 2_000 } = options;

  function find(name: string): Projection {
    const projection = projections.find((each) => each.name === name);
    if (!projection) throw new UnknownProjectionError(name);
    return projection;
  }

  const run = ({ signal, onProgress }: RunOptions = {}) => ({
    store,
    connectionString,
    maxBatch,
    signal: signal ?? new AbortController().signal,
    onProgress: onProgress ?? (() => {}),
  });

  async function inSession<Result>(work: (session: Session) => Promise<Result>): Promise<Result> {
    const session = await openSession({ connectionString, name: 'projection admin' });
    try {
      return await work(session);
    } finally {
      await session.close();
    }
  }

  const setStatus = (name: string, from: readonly string[], to: string) =>
    inSession(async (session) => {
      find(name);
      const change = (table: string) =>
        statement(
          `update projections.${table} set status = $3, error_event_id = null, error_code = null, updated_at = now()
            where name = $1 and status = any($2) returning name`,
          [name, from, to],
        );
      const [rebuild] = await session.query(
        statement('select name from projections.rebuild where name = $1', [name]),
      );
      const changed = await session.query(change(rebuild ? 'rebuild' : 'checkpoint'));
      if (changed.length === 0) return 'nothing';
      return rebuild ? 'rebuild' : 'live';
    });

  return {
    status: () => inSession(({ client }) => readProjectionStatus(client as pg.ClientBase)),
    rebuild: async (name, runOptions) => rebuildProjection(find(name), run(runOptions)),
    verify: async (name, runOptions) => verifyProjection(find(name), run(runOptions)),
    pause: (name) => setStatus(name, ['live'], 'paused'),
    resume: (name) => setStatus(name, ['paused', 'failed'], 'live'),
    cancel: (name) => inSession((session) => dropSuccessor(session, find(name).name)),
  };
}
