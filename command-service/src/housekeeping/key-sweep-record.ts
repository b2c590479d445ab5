import { aliased } from '@token-vault/contracts';
import { dataKeyTable } from '@token-vault/crypto';
import { comparePositions, parsePosition, type Position, type StoredEvent } from '@token-vault/event-store';
import type { Pool } from 'pg';
import { sweptKinds } from './entity.ts';

/** An event by which the log is known again. */
export type Mark = Pick<StoredEvent, 'stream' | 'revision' | 'id' | 'position'>;

/** The notes of the last pass, which stand beside the keys. All times are those of the database. */
export interface SweepRecord {
  /** The last event of the log at that pass. */
  readonly mark: Mark;
  /** Keys up to this id are done, or nothing is known of the log of their time. */
  readonly after: string;
  /** Keys up to this id were older than the grace at that pass: their appends came before `mark`. */
  readonly until: string;
  /** The log was looked at a moment ago. */
  readonly isRecent: boolean;
}

export interface Noted {
  readonly record: SweepRecord | undefined;
  /** The newest position that a read model has reached. A log that ends before it has lost events. */
  readonly readTo: Position;
}

/** A data key that no row of the read model of tokens names. */
export interface UnneededKey {
  readonly id: string;
  readonly tenantId: string;
  /** The entity that the key was made for, e.g. `token:<id>`. */
  readonly entity: string;
}

export interface KeyPage {
  readonly keys: readonly UnneededKey[];
  /** The id up to which the page goes. */
  readonly end: string;
  readonly isLast: boolean;
}

interface Row {
  readonly after: string | null;
  readonly until: string;
  readonly stream: string;
  readonly revision: number;
  readonly event_id: string;
  readonly position: string;
  readonly is_recent: boolean;
  readonly read_to: string | null;
}

const token = aliased('tokens', 'token', 't');

/** When no pass has looked at the log for longer, the log may have been replaced unnoticed. */
const longestGap = '10 minutes';
const keysOfPage = 5_000;

/** The lowest id that a key can have which is made `$n` milliseconds from now: the ids are UUIDs of version 7. */
const idAt = (ms: string): string =>
  `(lpad(to_hex((extract(epoch from clock_timestamp()) * 1000 + ${ms})::bigint), 12, '0') || repeat('0', 20))::uuid`;

const readStatement = `
select s.after::text, s.until::text, s.stream, s.revision, s.event_id::text, s.position::text,
  s.noted_at > clock_timestamp() - interval '${longestGap}' as is_recent,
  (select max(position)::text from projections.checkpoint) as read_to
from (select) as always left join housekeeping.key_sweep s on true`;

const pageEndStatement = `
select id::text from ${dataKeyTable} where id > $1 and id <= $2 order by id offset ${keysOfPage - 1} limit 1`;

/** A key with an end of its own (a cvc) is destroyed then. The keys of a deleted tenant are destroyed with it. */
const keysStatement = `
select k.id::text, k.tenant_id::text as "tenantId", k.entity
from ${dataKeyTable} k
where k.id > $1 and k.id <= $2 and k.destroy_after is null and split_part(k.entity, ':', 1) = any($3)
  and exists (select from key_ring.tenant_key o where o.tenant_id = k.tenant_id)
  and not exists (select from ${token.source} where ${token.tenant_id} = k.tenant_id
    and 'token:' || ${token.id} = k.entity and substring(${token.data} from 5 for 36) = k.id::text)
order by k.id`;

/** The one row in which the passes of the sweep note how far they have come, and of which log. */
export function createSweepRecord(pool: Pool, graceMs: number) {
  const markOf = ({ stream, revision, id, position }: Mark) => [stream, revision, id, position];
  return {
    async read(): Promise<Noted> {
      const { rows } = await pool.query<Row>(readStatement);
      const [row] = rows;
      const readTo = parsePosition(row?.read_to ?? '0');
      if (!row || row.after === null) return { record: undefined, readTo };
      const { after, until, stream, revision, event_id: id, is_recent: isRecent } = row;
      const mark = { stream, revision, id, position: parsePosition(row.position) };
      return { record: { mark, after, until, isRecent }, readTo };
    },

    /**
     * Forgets what was noted, and starts anew with this log: no key that is made before now is ever swept, by the
     * clock of a writer that is ahead by the grace at most.
     */
    async begin(before: SweepRecord | undefined, mark: Mark | undefined): Promise<void> {
      if (before)
        await pool.query('delete from housekeeping.key_sweep where event_id = $1', [before.mark.id]);
      if (!mark) return;
      await pool.query(
        `insert into housekeeping.key_sweep (after, until, stream, revision, event_id, position, noted_at)
         values (${idAt('$5::numeric')}, ${idAt('$5::numeric')}, $1, $2, $3, $4::numeric, clock_timestamp()) on conflict do nothing`,
        [...markOf(mark), graceMs],
      );
    },

    async page({ after, until }: SweepRecord): Promise<KeyPage> {
      const ends = await pool.query<{ id: string }>(pageEndStatement, [after, until]);
      const end = ends.rows[0]?.id ?? until;
      const { rows: keys } = await pool.query<UnneededKey>(keysStatement, [after, end, sweptKinds]);
      return { keys, end, isLast: ends.rows.length === 0 };
    },

    /** Does nothing when another process has noted something since: a leader that was replaced may still go on. */
    async advance(before: SweepRecord, end: string, mark: Mark): Promise<void> {
      await pool.query(
        `update housekeeping.key_sweep set stream = $1, revision = $2, event_id = $3, position = $4::numeric,
           after = greatest(after, $6::uuid), until = greatest(until, ${idAt('-$5::numeric')}), noted_at = clock_timestamp()
         where event_id = $7`,
        [...markOf(mark), graceMs, end, before.mark.id],
      );
    },
  };
}

/** Why a pass begins anew: no pass has looked for a while, or the log is not the one of before. */
export type Doubt = 'pause' | 'log';

/**
 * Undefined when the log certainly holds all that was in the log of the record.
 * @param log `end`: the end of the log, found after the record was read
 */
export async function doubtOf(
  { readTo }: Noted,
  { mark, isRecent }: SweepRecord,
  { end, isStored }: { readonly end: Position; readonly isStored: (mark: Mark) => Promise<boolean> },
): Promise<Doubt | undefined> {
  if (comparePositions(end, readTo) < 0 || !(await isStored(mark))) return 'log';
  return isRecent ? undefined : 'pause';
}
