import type { EventRegistry } from '@token-vault/contracts';
import type pg from 'pg';
import { decodeEvents, type DecodedEvents, type StoredEvent } from '../codec.ts';
import type { Position } from '../port.ts';
import { asUnavailable, textValues } from './connection.ts';

/** What a page is read with: the pool, or the one connection of the tail. */
export interface Queryable {
  query(query: pg.QueryArrayConfig, values: unknown[]): Promise<pg.QueryArrayResult<EventRow>>;
}

/** A stretch of the log, or of one stream. */
export interface Page extends DecodedEvents {
  /** Sizes of `events`, at the same indexes. */
  readonly bytes: readonly number[];
  /** Of the last row read, whether it could be decoded or not; undefined for an empty page. */
  readonly end: { readonly position: Position; readonly revision: number } | undefined;
  /** Nothing followed at the moment of reading. */
  readonly isLast: boolean;
}

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

export const maxPageEvents = 1_000;
const maxPageBytes = 4 * 1024 * 1024;

const columns = 'position, stream, revision, version, bytes, id, type, data, metadata';

/** Rows of a range in key order, as long as what went before them is below the page's bytes: always at least one. */
function pageQuery(name: string, key: string, range: string): pg.QueryArrayConfig {
  return {
    name: `event_store_${name}`,
    text: `select ${columns} from (
        select ${columns}, sum(bytes) over (order by ${key}) - bytes as bytes_before
        from event_store.event where ${range} order by ${key} limit $3::integer
      ) page where bytes_before < ${maxPageBytes} order by ${key}`,
    rowMode: 'array',
    types: textValues,
  };
}

const logPage = pageQuery('log_page', 'position', 'position > $1::bigint and position <= $2::bigint');
const streamPage = pageQuery('stream_page', 'revision', 'stream = $1::text and revision >= $2::integer');
const headQuery: pg.QueryArrayConfig = {
  name: 'event_store_head',
  text: 'select position from event_store.head',
  rowMode: 'array',
  types: textValues,
};

/** Beyond every position. */
export const endOfTime = String(2n ** 63n - 1n) as Position;

/** The log after `after` (exclusive) up to `until` (inclusive). */
export function readLogPage(
  database: Queryable,
  registry: EventRegistry,
  after: Position,
  until: Position,
  maxEvents = maxPageEvents,
): Promise<Page> {
  return readPage(database, registry, logPage, [after, until, maxEvents]);
}

/** A stream from revision `from` (inclusive). */
export function readStreamPage(
  database: Queryable,
  registry: EventRegistry,
  stream: string,
  from: number,
): Promise<Page> {
  return readPage(database, registry, streamPage, [stream, from, maxPageEvents]);
}

export async function readHead(database: Queryable): Promise<Position> {
  try {
    const { rows } = await database.query(headQuery, []);
    return (rows[0] as unknown as [string])[0] as Position;
  } catch (error) {
    throw asUnavailable(error);
  }
}

async function readPage(
  database: Queryable,
  registry: EventRegistry,
  query: pg.QueryArrayConfig,
  values: [unknown, unknown, maxEvents: number],
): Promise<Page> {
  const rows = await queryRows(database, query, values);
  const bytes = rows.map((row) => Number(row[4]));
  const last = rows.at(-1);
  return {
    ...decodeEvents(registry, rows.map(storedEvent)),
    bytes,
    end: last && { position: last[0] as Position, revision: Number(last[2]) },
    isLast: rows.length < values[2] && bytes.reduce((sum, size) => sum + size, 0) < maxPageBytes,
  };
}

async function queryRows(
  database: Queryable,
  query: pg.QueryArrayConfig,
  values: unknown[],
): Promise<EventRow[]> {
  try {
    const { rows } = await database.query(query, values);
    return rows;
  } catch (error) {
    throw asUnavailable(error);
  }
}

function storedEvent(row: EventRow): StoredEvent {
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
