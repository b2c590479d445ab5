import type pg from 'pg';

/**
 * The tables that a backup of this log copies by COPY: each event as it was written. `completeCopiedLog` derives the
 * streams and the head from the events. The columns are listed, so that a later migration may add columns.
 */
export const copiedLog = {
  table: 'event_store.event',
  columns: ['position', 'stream', 'revision', 'version', 'bytes', 'id', 'type', 'data', 'metadata'],
  orderBy: 'position',
} as const;

/** The schema of everything that this adapter keeps in a database. */
export const logSchema = 'event_store';

export interface LogIdentity {
  /** The id of the first event: two copies of one log have the same. */
  readonly id: string;
  readonly position: string;
}

/** Undefined for an empty log. In a transaction of the caller, the identity is that of its snapshot. */
export async function readLogIdentity(client: pg.ClientBase): Promise<LogIdentity | undefined> {
  const { rows } = await client.query<{ id: string | null; position: string }>(
    `select (select id::text from event_store.event where position >= 1 order by position limit 1) as id, position::text
     from event_store.head`,
  );
  const { id, position } = rows[0] ?? {};
  return typeof id === 'string' && position !== undefined ? { id, position } : undefined;
}

/**
 * Makes a log of the events that were copied into an empty one, in the caller's transaction: its streams and its head.
 * @returns the position of the last event, and the number of events; positions without a gap make these equal
 */
export async function completeCopiedLog(
  client: pg.ClientBase,
): Promise<{ readonly position: string; readonly events: string }> {
  await client.query(
    `insert into event_store.stream (name, revision)
     select stream, max(revision) from event_store.event group by stream`,
  );
  const { rows } = await client.query<{ position: string; events: string }>(
    `update event_store.head set position = e.position from
       (select coalesce(max(position), 0) as position, count(*) as events from event_store.event) e
     returning e.position::text, e.events::text`,
  );
  return rows[0] ?? { position: '0', events: '0' };
}
