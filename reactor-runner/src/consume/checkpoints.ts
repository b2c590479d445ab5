import { parsePosition, startPosition } from '@token-vault/event-store';
import type { CheckpointStore } from '@token-vault/invocation-feed';
import type { Pool } from 'pg';

/** Stores the position of a feed in the log, in a table of `invocationFeedMigrations`. */
export function createFeedCheckpoints(pool: Pool, name: string): CheckpointStore {
  return {
    async load() {
      const { rows } = await pool.query<{ position: string }>(
        'select position::text as position from invocations.checkpoint where name = $1',
        [name],
      );
      const [row] = rows;
      return row ? parsePosition(row.position) : startPosition;
    },
    /** Never moves back: a slower runner that saves late has done its work too. */
    async save(position) {
      await pool.query(
        `insert into invocations.checkpoint as c (name, position) values ($1, $2::numeric)
         on conflict (name) do update set position = greatest(c.position, excluded.position)`,
        [name, position],
      );
    },
  };
}
