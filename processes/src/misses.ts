import type { MissCounter } from '@token-vault/http';
import type pg from 'pg';
import type { Migration } from './migrations/index.ts';

/**
 * The tries of each application in its window. The table is not logged: a crash of Postgres forgets the windows that are open, and no
 * statement waits for a flush. Ids rise from 1 without gaps; a released migration never changes.
 */
export const missMigrations: readonly Migration[] = [
  {
    id: 1,
    name: 'misses',
    sql: `
create schema limits;

create unlogged table limits.miss (
  application_id uuid primary key,
  ends_at timestamptz not null,
  taken integer not null,
  -- What the last statement took.
  places integer not null
) with (fillfactor = 50);
`,
  },
];

const isOver = `m.ends_at <= excluded.ends_at - interval '1 minute'`;
const taken = `case when ${isOver} then 0 else m.taken end`;
/** The places that a process gets when `before` are taken. */
const placesAfter = (before: string) =>
  `case when ${before} < $3::integer then greatest($2::integer, ($3::integer - ${before}) / 10) else 0 end`;

/** The row decides, so all processes have the same window. It is locked when it is compared. */
const take = {
  name: 'take-misses',
  text: `insert into limits.miss as m (application_id, ends_at, taken, places)
    values ($1, clock_timestamp() + interval '1 minute', ${placesAfter('0')}, ${placesAfter('0')})
    on conflict (application_id) do update set
      ends_at = case when ${isOver} then excluded.ends_at else m.ends_at end,
      taken = ${taken} + ${placesAfter(taken)},
      places = ${placesAfter(taken)}
    returning ends_at::text as "window", taken, places,
      (extract(epoch from ends_at - clock_timestamp()) * 1000)::float8 as ends_in_ms`,
};

const giveBack = {
  name: 'give-misses-back',
  text: `update limits.miss set taken = greatest(0, taken - $3)
    where application_id = $1 and ends_at = $2::timestamptz`,
};

const sweep = {
  name: 'sweep-misses',
  text: `delete from limits.miss where application_id = any(array(
    select application_id from limits.miss where ends_at <= clock_timestamp() for update skip locked))`,
};

interface Taken {
  readonly window: string;
  readonly taken: number;
  readonly places: number;
  readonly ends_in_ms: number;
}

/** The counter that all processes share. Takes a pool of the primary. Removes windows that are over, once a minute while it is used. */
export function createSharedCounter(pool: Pick<pg.Pool, 'query'>): MissCounter {
  let sweptMs = -Infinity;

  async function sweepSometimes(): Promise<void> {
    if (performance.now() - sweptMs < 60_000) return;
    sweptMs = performance.now();
    await pool.query(sweep);
  }

  return {
    async take(applicationId, tries, limit) {
      const { rows } = await pool.query<Taken>({ ...take, values: [applicationId, tries, limit] });
      const [row] = rows;
      if (!row) throw new Error('no window was written');
      // The next statement tries again.
      void sweepSometimes().catch(() => undefined);
      const room = Math.max(0, limit - row.taken + row.places);
      return {
        places: row.places,
        keeps: Math.floor(room / 10),
        window: row.window,
        endsInMs: row.ends_in_ms,
      };
    },

    async giveBack(applicationId, window, places) {
      await pool.query({ ...giveBack, values: [applicationId, window, places] });
    },
  };
}
