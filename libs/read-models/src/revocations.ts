import { createBatcher } from '@token-vault/batching';
import { authenticationReadModels, KnownOutcomeError } from '@token-vault/contracts';
import type { Position } from '@token-vault/event-store';
import type { Revocations } from '@token-vault/operations';
import type pg from 'pg';
import { setTimeout as delay } from 'node:timers/promises';
import { keptGenerations } from './known-revocations.ts';
import type { ProjectionProgress } from './projection-progress.ts';
import { leaseMs } from './read-model-watch.ts';

export interface RevocationsOptions {
  /** A pool of the primary. */
  readonly pool: Pick<pg.Pool, 'connect' | 'query'>;
  readonly progress: Pick<ProjectionProgress, 'waitFor'>;
  /** rules.md §6. */
  readonly withinMs?: number;
}

/** Timers may end a little early. */
const timerErrorMs = 10;

const unconfirmed =
  'It is stored, but not yet certain that every process has applied it. Repeat the request to have it confirmed.';

/**
 * First the read models show the revocation. Then the generation is incremented, and the stream of the revocation is stored with it. Every
 * process compares both with its cached callers, and knows them for no longer than the lease whenever it uses the cache. So after the
 * lease no process uses data from before. A process that does not answer, or is not known, need not be asked. A revocation that cannot be
 * confirmed is noted.
 */
export function createRevocations({ pool, progress, withinMs = 2_000 }: RevocationsOptions): Revocations {
  // One row and one flush for many revocations.
  const raising = createBatcher<readonly string[], void>({
    maxItems: Infinity,
    async run(revoked) {
      await raiseGeneration(pool, revoked.flat());
      return revoked.map(() => undefined);
    },
  });

  async function confirmBy(
    position: Position,
    streams: readonly string[],
    deadlineMs: number,
  ): Promise<'as usual' | 'was unconfirmed'> {
    if (!(await progress.waitFor(position, withinMs, authenticationReadModels)))
      throw new KnownOutcomeError(unconfirmed);
    await raising.add(streams);
    if (performance.now() + leaseMs > deadlineMs) throw new KnownOutcomeError(unconfirmed);
    await delay(leaseMs + timerErrorMs);
    const { rowCount } = await pool.query(
      'delete from projections.unconfirmed_revocation where position = $1',
      [position],
    );
    return rowCount === 1 ? 'was unconfirmed' : 'as usual';
  }

  return {
    async confirm(position, streams) {
      try {
        return await within(withinMs, confirmBy(position, streams, performance.now() + withinMs));
      } catch (cause) {
        // If this fails too, a repeat is still confirmed, but is answered like the repeat of a confirmed revocation.
        await within(withinMs, note(pool, position)).catch(() => undefined);
        throw cause instanceof KnownOutcomeError ? cause : new KnownOutcomeError(unconfirmed, { cause });
      }
    },
  };
}

const note = (pool: Pick<pg.Pool, 'query'>, position: Position) =>
  pool.query('insert into projections.unconfirmed_revocation (position) values ($1) on conflict do nothing', [
    position,
  ]);

/** Revocations are forgotten in the end (`keptGenerations`). Others that are confirmed at the same time wait for the row of `access`. */
const raiseAll = `
  with raised as (update projections.access set generation = generation + 1 returning generation),
  forgotten as (
    delete from projections.revocation r using raised where r.generation <= raised.generation - ${keptGenerations}
  )
  insert into projections.revocation (generation, stream)
  select generation, stream from raised, (select distinct unnest($1::text[]) as stream) revoked`;

/**
 * This commit is flushed, and with it all earlier commits in Postgres' log, among them the rows of read models, which are not flushed by
 * themselves. So a crash cannot undo the revocation.
 */
async function raiseGeneration(pool: Pick<pg.Pool, 'connect'>, streams: readonly string[]): Promise<void> {
  const client = await pool.connect();
  try {
    await client.query('begin; set local synchronous_commit = on');
    await client.query(raiseAll, [streams]);
    await client.query('commit');
    client.release();
  } catch (error) {
    client.release(true);
    throw error;
  }
}

async function within<Result>(ms: number, work: Promise<Result>): Promise<Result> {
  const end = new AbortController();
  const late = delay(ms, undefined, { signal: end.signal }).then(() => {
    throw new KnownOutcomeError(unconfirmed);
  });
  work.catch(() => undefined);
  late.catch(() => undefined);
  try {
    return await Promise.race([work, late]);
  } finally {
    end.abort();
  }
}
