import { nextSchema, type Projection } from '../projection.ts';
import { failureCode, isPassing } from '../runner/failures.ts';
import { pause } from '../runner/leadership.ts';
import { countIndexes, countReaderIndexes, readerIndexesSql } from '../runner/schema.ts';
import type { Session } from '../runner/session.ts';
import { statement } from '../runner/statements.ts';
import type { FillOptions, FillOutcome } from './fill.ts';
import { failSuccessor } from './successor.ts';

/**
 * Makes the indexes that only readers need, on a full successor. Either all are made or none, so a rebuild that was
 * killed here repeats the step. Maintaining them for each event took most of the time of a rebuild. Ends early when
 * the rebuild was cancelled.
 */
export async function indexForReaders(filling: FillOptions, holder: Session): Promise<FillOutcome> {
  const { session, projection, signal } = filling;
  if (signal.aborted) return 'aborted';
  if (countReaderIndexes(projection) === 0 || (await isIndexed(session, projection))) return 'filled';
  try {
    await build(filling, holder);
    return 'filled';
  } catch (error) {
    // This throws too when the connection was lost.
    await session.client.query('rollback');
    if (signal.aborted) return 'aborted';
    if (!(await isWanted(filling))) return 'cancelled';
    if (isPassing(error)) throw error;
    return failSuccessor(session, projection.name, { code: failureCode(error) });
  }
}

/** Waits for the transaction that cancels the rebuild. It ended the statement, and may not be committed yet. */
async function isWanted({ session, projection, generation }: FillOptions): Promise<boolean> {
  const found = await session.query(
    statement('select name from projections.rebuild where name = $1 and generation = $2 for share', [
      projection.name,
      generation,
    ]),
  );
  return found.length > 0;
}

async function isIndexed(session: Session, projection: Projection): Promise<boolean> {
  const [found] = await session.query<{ count: number }>(
    statement(
      `select count(*)::integer as count from pg_index i join pg_class c on c.oid = i.indrelid
        where c.relnamespace = to_regnamespace($1) and c.relkind = 'r'`,
      [nextSchema(projection.name)],
    ),
  );
  return found?.count === countIndexes(projection);
}

async function build({ session, projection, signal }: FillOptions, holder: Session): Promise<void> {
  const [backend] = await session.query<{ pid: number }>(statement('select pg_backend_pid() as pid', []));
  const over = new AbortController();
  const sql = `begin; ${readerIndexesSql(projection, nextSchema(projection.name))}; commit`;
  const building = session.client.query(sql).finally(() => over.abort());
  await Promise.all([building, cutShort(holder, backend?.pid ?? 0, over.signal, signal)]);
}

/**
 * One statement may run for hours. It is cancelled when the rebuild is aborted, or when another session waits to drop
 * the tables.
 */
async function cutShort(holder: Session, pid: number, over: AbortSignal, signal: AbortSignal): Promise<void> {
  const woken = AbortSignal.any([over, signal]);
  const cancel = statement(
    `select pg_cancel_backend($1) where $2 or exists (
       select from pg_stat_activity where backend_type = 'client backend' and $1 = any(pg_blocking_pids(pid)))`,
    [pid, false],
  );
  while (!over.aborted) {
    await pause(500, signal.aborted ? over : woken);
    if (over.aborted) return;
    await holder.query({ ...cancel, values: [pid, signal.aborted] });
  }
}
