import type pg from 'pg';

/** The progress of a projection. Positions are decimal text. */
export interface ProjectionStatus {
  readonly name: string;
  readonly version: number;
  readonly generation: number;
  readonly status: 'live' | 'paused' | 'failed' | 'outdated';
  readonly position: string;
  readonly errorEventId?: string;
  readonly errorCode?: string;
  readonly updatedAt: Date;
  readonly rebuild?: RebuildStatus;
}

/** A successor being filled beside the live read model. */
export interface RebuildStatus {
  readonly purpose: 'swap' | 'verify';
  readonly version: number;
  readonly status: 'live' | 'paused' | 'failed';
  readonly position: string;
  readonly errorEventId?: string;
  readonly errorCode?: string;
  readonly startedAt: Date;
  readonly updatedAt: Date;
}

interface StatusRow {
  name: string;
  version: number;
  generation: number;
  status: ProjectionStatus['status'];
  position: string;
  error_event_id: string | null;
  error_code: string | null;
  updated_at: Date;
  rebuild_purpose: RebuildStatus['purpose'] | null;
  rebuild_version: number;
  rebuild_status: RebuildStatus['status'];
  rebuild_position: string;
  rebuild_error_event_id: string | null;
  rebuild_error_code: string | null;
  rebuild_started_at: Date;
  rebuild_updated_at: Date;
}

/** All projections by name, and the rebuilds under way. The schema `projections` must exist. */
export async function readProjectionStatus(
  database: Pick<pg.Pool | pg.ClientBase, 'query'>,
): Promise<ProjectionStatus[]> {
  const { rows } = await (database as pg.Pool).query<StatusRow>(`
    select c.name, c.version, c.generation, c.status, c.position::text as position, c.error_event_id, c.error_code,
      c.updated_at, r.purpose as rebuild_purpose, r.version as rebuild_version, r.status as rebuild_status,
      r.position::text as rebuild_position, r.error_event_id as rebuild_error_event_id,
      r.error_code as rebuild_error_code, r.started_at as rebuild_started_at, r.updated_at as rebuild_updated_at
    from projections.checkpoint c left join projections.rebuild r using (name)
    order by c.name`);
  return rows.map(toStatus);
}

function toStatus(row: StatusRow): ProjectionStatus {
  const { name, version, generation, status, position } = row;
  return {
    name,
    version,
    generation,
    status,
    position,
    ...errorOf(row.error_event_id, row.error_code),
    updatedAt: row.updated_at,
    ...(row.rebuild_purpose && { rebuild: toRebuild(row, row.rebuild_purpose) }),
  };
}

function toRebuild(row: StatusRow, purpose: RebuildStatus['purpose']): RebuildStatus {
  return {
    purpose,
    version: row.rebuild_version,
    status: row.rebuild_status,
    position: row.rebuild_position,
    ...errorOf(row.rebuild_error_event_id, row.rebuild_error_code),
    startedAt: row.rebuild_started_at,
    updatedAt: row.rebuild_updated_at,
  };
}

function errorOf(
  eventId: string | null,
  code: string | null,
): { readonly errorEventId?: string; readonly errorCode?: string } {
  return { ...(eventId !== null && { errorEventId: eventId }), ...(code !== null && { errorCode: code }) };
}
