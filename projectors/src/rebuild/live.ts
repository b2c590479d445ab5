import { liveSchema } from '@token-vault/contracts';
import { parsePosition, type Position } from '@token-vault/event-store';
import { nextSchema } from '../projection.ts';
import type { Session } from '../runner/session.ts';
import { statement } from '../runner/statements.ts';

const formerSchema = (name: string): string => `${liveSchema(name)}_former`;

/**
 * Stops the live read model at its position until the transaction of this session ends: projectors wait at their
 * fence. Undefined when the projection has no checkpoint.
 */
export async function holdLive(session: Session, name: string): Promise<Position | undefined> {
  await session.client.query('begin');
  const [row] = await session.query<{ position: string }>(
    statement('select position::text as position from projections.checkpoint where name = $1 for update', [
      name,
    ]),
  );
  return row && parsePosition(row.position);
}

export async function releaseLive(session: Session): Promise<void> {
  await session.client.query('rollback');
}

/**
 * Replaces the live read model by the successor and ends the transaction of `holdLive`. A reader sees either the one
 * or the other: only names change, and running queries finish on the tables that they began with. Running projectors
 * meet the new generation at their fence. A paused projection stays paused. False when the rebuild was cancelled.
 */
export async function swap(session: Session, name: string, generation: number): Promise<boolean> {
  const live = liveSchema(name);
  const found = await session.query(
    statement('select name from projections.rebuild where name = $1 and generation = $2 for update', [
      name,
      generation,
    ]),
  );
  if (found.length === 0) return false;
  await session.client.query(`
    alter schema ${live} rename to ${formerSchema(name)};
    alter schema ${nextSchema(name)} rename to ${live};
    update projections.checkpoint c
       set version = r.version, generation = r.generation, position = r.position, updated_at = now(),
           status = case c.status when 'paused' then 'paused' else 'live' end,
           error_event_id = null, error_code = null
      from projections.rebuild r where c.name = '${name}' and r.name = c.name;
    delete from projections.rebuild where name = '${name}';
    select pg_notify('projection_progress', name || ':' || position) from projections.checkpoint where name = '${name}';
    commit`);
  return true;
}

/** Drops the tables that a swap replaced, also those that a killed process left. */
export async function dropFormer(session: Session, name: string): Promise<void> {
  await session.client.query(`drop schema if exists ${formerSchema(name)} cascade`);
}
