import { liveSchema } from '@token-vault/contracts';
import { parsePosition, startPosition, type Position } from '@token-vault/event-store';
import type { Projection } from '../projection.ts';
import { schemaSql } from './schema.ts';
import type { Session } from './session.ts';
import { statement } from './statements.ts';

/** `outdated`: an older version made the read model; it stays in service until its rebuild is done. */
export type CheckpointStatus = 'live' | 'paused' | 'failed' | 'outdated';

export interface Checkpoint {
  readonly version: number;
  readonly generation: number;
  readonly status: CheckpointStatus;
  readonly position: Position;
}

interface CheckpointRow {
  version: number;
  generation: number;
  status: CheckpointStatus;
  position: string;
  has_schema: boolean;
}

/**
 * The checkpoint of a projection. When its tables do not exist, they are made and the projection starts at the
 * beginning of the log.
 */
export async function readOrCreateCheckpoint(session: Session, projection: Projection): Promise<Checkpoint> {
  const schema = liveSchema(projection.name);
  const [row] = await session.query<CheckpointRow>(
    statement(
      `select version, generation, status, position::text as position, to_regnamespace($2) is not null as has_schema
       from projections.checkpoint where name = $1`,
      [projection.name, schema],
    ),
  );
  if (row?.has_schema) return { ...row, position: parsePosition(row.position) };
  const generation = (row?.generation ?? 0) + 1;
  await session.client.query(`
    begin;
    drop schema if exists ${schema} cascade;
    ${schemaSql(projection, schema, 'all')};
    delete from projections.rebuild where name = '${projection.name}';
    delete from projections.checkpoint where name = '${projection.name}';
    insert into projections.checkpoint (name, version, generation, status, position)
    values ('${projection.name}', ${projection.version}, ${generation}, 'live', 0);
    commit`);
  return { version: projection.version, generation, status: 'live', position: startPosition };
}

/** Whether an older release made the live read model. */
export async function isOutdated(session: Session, { name, version }: Projection): Promise<boolean> {
  const older = await session.query(
    statement('select name from projections.checkpoint where name = $1 and version < $2', [name, version]),
  );
  return older.length > 0;
}

/** Sets the status unless the checkpoint changed meanwhile. */
export async function changeStatus(
  session: Session,
  name: string,
  from: Checkpoint,
  to: CheckpointStatus,
): Promise<boolean> {
  const changed = await session.query(
    statement(
      `update projections.checkpoint
          set status = $4, updated_at = now(), error_event_id = null, error_code = null
        where name = $1 and generation = $2 and status = $3 returning name`,
      [name, from.generation, from.status, to],
    ),
  );
  return changed.length > 0;
}

/**
 * Stops the projection at `position`, because the next event cannot be applied. Only the id of the event and a code
 * are stored.
 */
export async function markFailed(
  session: Session,
  name: string,
  at: { readonly generation: number; readonly position: Position },
  failure: { readonly eventId: string | undefined; readonly code: string },
): Promise<void> {
  await session.query(
    statement(
      `update projections.checkpoint
          set status = 'failed', error_event_id = $4, error_code = $5, updated_at = now()
        where name = $1 and generation = $2 and position = $3 and status = 'live'`,
      [name, at.generation, at.position, failure.eventId ?? null, failure.code],
    ),
  );
}
