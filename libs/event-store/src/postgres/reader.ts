import { createBatcher } from '@token-vault/batching';
import type { EventRegistry } from '@token-vault/contracts';
import type pg from 'pg';
import type { StreamRange } from '../append-request.ts';
import type { DecodedEvents } from '../codec.ts';
import { decodeFollowing } from '../dense-log.ts';
import { comparePositions, startPosition, type Position, type StoredEvent } from '../port.ts';
import { asUnavailable, textValues } from './connection.ts';

/** The connection of a read: the pool, or the one connection of the tail. */
export interface Queryable {
  query<Row extends string[]>(
    query: pg.QueryArrayConfig,
    values: unknown[],
  ): Promise<pg.QueryArrayResult<Row>>;
}

/** A stretch of the log or of one stream, as stored. */
export interface StoredPage {
  readonly events: readonly StoredEvent[];
  /** Sizes of `events`, at the same indexes. */
  readonly bytes: readonly number[];
  /** The place of the last row that was read, whether it could be decoded or not; undefined for an empty page. */
  readonly end: { readonly position: Position; readonly revision: number } | undefined;
  /** No event followed at the moment of reading. */
  readonly isLast: boolean;
}

/** A stretch whose events have the current version. */
export type Page = Omit<StoredPage, 'events'> & DecodedEvents;

type EventRow = [
  position: string,
  stream: string,
  revision: string,
  version: string,
  bytes: string,
  id: string,
  type: string,
  data: string,
  metadata: string,
];

/** `place`: the number of the stream among the requested ones, from 1. */
type StartRow = [...event: EventRow, place: string];

export const maxPageEvents = 1_000;
const maxPageBytes = 4 * 1024 * 1024;

const columns = 'position, stream, revision, version, bytes, id, type, data, metadata';
/**
 * The size is that of the stored data and metadata, which Postgres knows without reading large ones. It is not the column `bytes`: a writer of
 * the database may put any number there, and a negative one among the rows of a page leaves a row before others out.
 */
const storedColumns = columns.replace('bytes', 'pg_column_size(data) + pg_column_size(metadata) as bytes');

/** Rows of a range in key order, while the rows before them are below the page's bytes: always at least one. */
function pageQuery(name: string, key: string, range: string): pg.QueryArrayConfig {
  return {
    name: `event_store_${name}`,
    text: `select ${columns} from (
        select ${columns}, sum(bytes) over (order by ${key}) - bytes as bytes_before from (
          select ${storedColumns} from event_store.event where ${range} order by ${key} limit $3::integer
        ) stretch
      ) page where bytes_before < ${maxPageBytes} order by ${key}`,
    rowMode: 'array',
    types: textValues,
  };
}

const headPosition = '(select head.position from event_store.head)';
/**
 * An append stores the head with its events, so who sees an event sees a head that is not below it. An event at another position was stored by
 * somebody else and is not part of the log, so it is not part of its stream either. Not a plain column: only the index of streams may serve it.
 * The head is read for an event beyond `$4` alone: while a long snapshot (a backup) is open, a look at its row takes a hundredth of a millisecond for each thousand
 * appends.
 */
const isInLog = `position + 0 >= 1 and (position + 0 <= $4::bigint or position + 0 <= ${headPosition})`;
const logRange = `position > $1::bigint and position <= least($2::bigint, ${headPosition})`;
const logPage = pageQuery('log_page', 'position', logRange);
const logPageBack = pageQuery('log_page_back', 'position desc', logRange);
const outsideRange = 'position >= $1::bigint and position <= $2::bigint';
const outsidePages = {
  below: pageQuery('below_log_page', 'position', `${outsideRange} and position < 1`),
  beyond: pageQuery('beyond_log_page', 'position', `${outsideRange} and position > ${headPosition}`),
};
const ofStream = `${isInLog} and stream = $1::text and revision`;
const streamPages = {
  forwards: pageQuery('stream_page', 'revision', `${ofStream} >= $2::integer`),
  backwards: pageQuery('stream_page_back', 'revision desc', `${ofStream} <= $2::integer`),
};
const streamStarts = {
  forwards: startsQuery('stream_starts', '>=', 'revision'),
  backwards: startsQuery('stream_starts_back', '<=', 'revision desc'),
};

/** The first pages of many streams, each with at most its own count of events, all together with at most a page's bytes. */
function startsQuery(name: string, isWithin: string, order: string): pg.QueryArrayConfig {
  return {
    name: `event_store_${name}`,
    text: `select ${columns}, place from (
        select ${columns}, place, sum(bytes) over (order by place, ${order}) - bytes as bytes_before
        from unnest($1::text[], $2::integer[], $3::integer[]) with ordinality as asked (name, first, most, place)
        cross join lateral (
          select ${storedColumns} from event_store.event
          where ${isInLog} and stream = asked.name and revision ${isWithin} asked.first order by ${order} limit asked.most
        ) start
      ) page where bytes_before < ${maxPageBytes} order by place, ${order}`,
    rowMode: 'array',
    types: textValues,
  };
}
const headQuery: pg.QueryArrayConfig = {
  name: 'event_store_head',
  text: 'select position from event_store.head',
  rowMode: 'array',
  types: textValues,
};

/** Beyond every position. */
export const maxPosition = String(2n ** 63n - 1n) as Position;

/** A stretch of the log after `after` (exclusive) up to `until` (inclusive). */
export interface LogRange {
  readonly after: Position;
  readonly until: Position;
  readonly maxEvents?: number;
}

/** The first page of a range of the log. */
export function readStoredLogPage(
  database: Queryable,
  { after, until, maxEvents = maxPageEvents }: LogRange,
): Promise<StoredPage> {
  return readPage(database, logPage, [after, until, maxEvents]);
}

/** The log before `before` (exclusive), newest first. */
export function readStoredLogPageBack(database: Queryable, before: Position): Promise<StoredPage> {
  return readPage(database, logPageBack, [startPosition, String(BigInt(before) - 1n), maxPageEvents]);
}

/** Events at positions that no append gives. `after` is the last position of the page before. */
export function readOutsidePage(
  database: Queryable,
  side: keyof typeof outsidePages,
  after: Position | undefined,
): Promise<StoredPage> {
  const first = after === undefined ? String(-(2n ** 63n)) : String(BigInt(after) + 1n);
  return readPage(database, outsidePages[side], [first, maxPosition, maxPageEvents]);
}

/** As `readStoredLogPage`, decoded up to the first event that is missing or cannot be read. */
export async function readLogPage(
  database: Queryable,
  registry: EventRegistry,
  range: LogRange,
): Promise<Page> {
  const page = await readStoredLogPage(database, range);
  return { ...page, ...decodeFollowing(registry, range.after, page.events) };
}

/** The last position that a process has seen in the log: the head is not below it. */
export class SeenHead {
  position: Position = startPosition;

  learn(rows: readonly (EventRow | StartRow)[]): void {
    for (const [position] of rows)
      if (comparePositions(position as Position, this.position) > 0) this.position = position as Position;
  }
}

/** A database, and what was seen of its log. */
export interface SeenLog {
  readonly database: Queryable;
  readonly seen: SeenHead;
}

/** The first page of a range of a stream. */
export async function readStreamPage(
  { database, seen }: SeenLog,
  { stream, from, backwards, maxCount }: StreamRange,
): Promise<StoredPage> {
  const query = backwards ? streamPages.backwards : streamPages.forwards;
  const most = Math.min(maxCount, maxPageEvents);
  const rows = await queryRows<EventRow>(database, query, [stream, from, most, seen.position]);
  seen.learn(rows);
  return pageOf(rows, rows.length === most || isFull(rows));
}

/** Maximum number of streams in one statement; most streams are short, and the page's bytes limit them all. */
const maxStartsOfBatch = 100;

/** Reads the first pages of streams. Concurrent calls share one round trip for each direction. */
export function createStreamStarts(log: SeenLog): (range: StreamRange) => Promise<StoredPage> {
  const batchers = {
    forwards: createStarts(log, streamStarts.forwards),
    backwards: createStarts(log, streamStarts.backwards),
  };
  return (range) => (range.backwards ? batchers.backwards : batchers.forwards).add(range);
}

function createStarts(log: SeenLog, query: pg.QueryArrayConfig) {
  return createBatcher<StreamRange, StoredPage>({
    maxItems: maxStartsOfBatch,
    // Long streams must not delay all others.
    concurrency: 2,
    run: async (ranges) => {
      const { rows, isCut } = await readStarts(log, query, ranges);
      const byPlace = Map.groupBy(rows, (row) => Number(row[9]));
      // The stream at which the page became full: that stream may continue, and the streams after it are not begun.
      const cutPlace = isCut ? Number(rows.at(-1)?.[9]) : Infinity;
      return Promise.all(
        ranges.map(async (range, index) => {
          const place = index + 1;
          if (place > cutPlace) return readStreamPage(log, range);
          const ofStream = byPlace.get(place) ?? [];
          return pageOf(ofStream, place === cutPlace || ofStream.length === mostOf(range));
        }),
      );
    },
  });
}

const mostOf = ({ maxCount }: StreamRange): number => Math.min(maxCount, maxPageEvents);

export async function readHead(database: Queryable): Promise<Position> {
  try {
    const { rows } = await database.query<[string]>(headQuery, []);
    return (rows[0] as [string])[0] as Position;
  } catch (error) {
    throw asUnavailable(error);
  }
}

async function readPage(
  database: Queryable,
  query: pg.QueryArrayConfig,
  values: [unknown, unknown, maxEvents: number],
): Promise<StoredPage> {
  const rows = await queryRows<EventRow>(database, query, values);
  return pageOf(rows, rows.length === values[2] || isFull(rows));
}

async function readStarts(
  { database, seen }: SeenLog,
  query: pg.QueryArrayConfig,
  ranges: readonly StreamRange[],
) {
  const names = ranges.map(({ stream }) => stream);
  const firsts = ranges.map(({ from }) => from);
  const values = [names, firsts, ranges.map(mostOf), seen.position];
  const rows = await queryRows<StartRow>(database, query, values);
  seen.learn(rows);
  return { rows, isCut: isFull(rows) };
}

const sizeOf = (row: EventRow | StartRow): number => Number(row[4]);

const isFull = (rows: readonly (EventRow | StartRow)[]): boolean =>
  rows.reduce((sum, row) => sum + sizeOf(row), 0) >= maxPageBytes;

function pageOf(rows: readonly (EventRow | StartRow)[], isCut: boolean): StoredPage {
  const last = rows.at(-1);
  return {
    events: rows.map(storedEvent),
    bytes: rows.map(sizeOf),
    end: last && { position: last[0] as Position, revision: Number(last[2]) },
    isLast: !isCut,
  };
}

async function queryRows<Row extends string[]>(
  database: Queryable,
  query: pg.QueryArrayConfig,
  values: unknown[],
): Promise<Row[]> {
  try {
    const { rows } = await database.query<Row>(query, values);
    return rows;
  } catch (error) {
    throw asUnavailable(error);
  }
}

function storedEvent(row: EventRow | StartRow): StoredEvent {
  const [position, stream, revision, version, , id, type, data, metadata] = row;
  return {
    position: position as Position,
    stream,
    revision: Number(revision),
    version: Number(version),
    id,
    type,
    data,
    metadata,
  };
}
