import type { Pool, PoolClient } from 'pg';

/** An event exactly as it is stored: upcasters would make another text of it. */
export interface LogRow {
  readonly position: string;
  readonly stream: string;
  readonly revision: number;
  readonly version: number;
  readonly id: string;
  readonly type: string;
  /** JSON text. */
  readonly data: string;
  /** JSON text. */
  readonly metadata: string;
}

const pageEvents = 2_000;
const pageBytes = 8 * 1024 * 1024;

function readPage(database: Pool | PoolClient, after: string, until: string) {
  const page = database.query<LogRow>({
    name: 'audit_log_page',
    text: `select page.position::text, stream, revision, version, id::text, type, data::text, metadata::text from (
        select *, sum(bytes) over (order by position) - bytes as bytes_before
        from event_store.event where position > $1::bigint and position <= $2::bigint
        order by position limit ${pageEvents}
      ) page where bytes_before < ${pageBytes} order by page.position`,
    values: [after, until],
  });
  // It is awaited when the page before it has been read; until then its failure is nobody's.
  page.catch(() => undefined);
  return page;
}

/** The log after `after` (exclusive) up to `until` (inclusive), in bounded memory: Postgres reads a page ahead. */
export async function* readLogRows(
  database: Pool | PoolClient,
  after: string,
  until: string,
): AsyncGenerator<LogRow[], void> {
  let next = readPage(database, after, until);
  for (;;) {
    const { rows } = await next;
    const last = rows.at(-1);
    if (!last) return;
    next = readPage(database, last.position, until);
    yield rows;
  }
}

export async function readHead(database: Pool | PoolClient): Promise<string> {
  const { rows } = await database.query<{ position: string }>('select position::text from event_store.head');
  return rows[0]?.position ?? '0';
}

const tenantFirst = '{"tenant_id":"';
const uuidLength = 36;

/**
 * As our own writers put it, first and once: parsing the rest of the metadata would cost more than the hash. Of two tenants in
 * one event, which no writer of ours makes, the last counts, as for everybody else who parses it.
 */
export function tenantOf({ metadata }: LogRow): string {
  const end = tenantFirst.length + uuidLength;
  const isPlain =
    metadata.startsWith(tenantFirst) && metadata[end] === '"' && !metadata.includes('tenant_id', end);
  if (isPlain && !metadata.includes('\\')) return metadata.slice(tenantFirst.length, end);
  return (JSON.parse(metadata) as { tenant_id: string }).tenant_id;
}
