import { parsePosition, startPosition, type Position } from '@token-vault/event-store';
import type { Clock } from '@token-vault/operations';
import type { Pool } from 'pg';

export interface Checkpoint {
  /** `startPosition` when none is stored. */
  read(): Promise<Position>;
  /**
   * Never moves back. A former leader that writes late has finished its work too, so the higher position is correct.
   */
  advance(position: Position): Promise<void>;
  /** Starts again at the beginning, when the log is not the one of the checkpoint. */
  restart(): Promise<void>;
}

export function createCheckpoint(pool: Pool, clock: Clock, name: string): Checkpoint {
  return {
    async read() {
      const { rows } = await pool.query<{ position: string }>(
        'select position::text as position from housekeeping.checkpoint where name = $1',
        [name],
      );
      const [row] = rows;
      return row ? parsePosition(row.position) : startPosition;
    },
    async advance(position) {
      await pool.query(
        `insert into housekeeping.checkpoint as c (name, position, updated_at) values ($1, $2::numeric, $3)
         on conflict (name) do update
           set position = greatest(c.position, excluded.position), updated_at = excluded.updated_at`,
        [name, position, clock.now()],
      );
    },
    async restart() {
      await pool.query('delete from housekeeping.checkpoint where name = $1', [name]);
    },
  };
}

export interface HousekeepingProgress {
  readonly task: string;
  readonly position: string;
  readonly updatedAt: Date;
}

/** How far the tasks have come that follow the log. */
export async function readHousekeepingProgress(pool: Pool): Promise<readonly HousekeepingProgress[]> {
  const { rows } = await pool.query<HousekeepingProgress>(
    `select name as task, position::text as position, updated_at as "updatedAt" from housekeeping.checkpoint order by name`,
  );
  return rows;
}
