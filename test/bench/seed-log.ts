import type { Pool } from 'pg';
import { History, type PlacedEvent, type Signers } from './history.ts';

const batch = 5_000;

/**
 * Fills an empty log without the appender, as fast as Postgres inserts rows: only reading is measured. Positions have
 * no gaps, and streams and head are as the appender would leave them.
 */
export async function seedLog(pool: Pool, signers: Signers, events: number): Promise<void> {
  const history = new History(signers);
  for (let done = 0; done < events; done += batch) {
    const placed = history.take(Math.min(batch, events - done));
    await insert(pool, placed, done);
  }
  await pool.query('update event_store.head set position = $1', [events]);
  const revisions = [...history.revisions];
  for (let start = 0; start < revisions.length; start += batch) {
    const part = revisions.slice(start, start + batch);
    await pool.query(
      'insert into event_store.stream (name, revision) select * from unnest($1::text[], $2::integer[])',
      [part.map(([name]) => name), part.map(([, revision]) => revision)],
    );
  }
  await pool.query('vacuum (analyze) event_store.event');
}

async function insert(pool: Pool, events: readonly PlacedEvent[], after: number): Promise<void> {
  const column = <Value>(of: (event: PlacedEvent) => Value): Value[] => events.map(of);
  await pool.query(
    `insert into event_store.event (position, stream, revision, version, bytes, id, type, data, metadata)
     select $1::bigint + ord, stream, revision, version, pg_column_size(data) + pg_column_size(metadata), id, type, data, metadata
     from unnest($2::text[], $3::integer[], $4::integer[], $5::uuid[], $6::text[], $7::json[], $8::json[])
       with ordinality as e (stream, revision, version, id, type, data, metadata, ord)`,
    [
      after,
      column(({ stream }) => stream),
      column(({ revision }) => revision),
      column(({ version }) => version),
      column(({ id }) => id),
      column(({ type }) => type),
      column(({ data }) => JSON.stringify(data)),
      column(({ metadata }) => JSON.stringify(metadata)),
    ],
  );
}
