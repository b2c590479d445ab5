import type { SealedValue } from '@token-vault/crypto';
import type { Pool } from 'pg';
import type { Reader } from '../fair-reads.ts';
import { fetchPage, limits, totalOf, type Page, type PageRequest } from '../paging.ts';
import { nameIs, type ReactorFilters, type ReactorRow } from '../reactors/queries.ts';
import { allOf, compile, sql, type Sql } from '../sql.ts';

interface StoredKey {
  readonly id: string;
  readonly hash: string;
  readonly created_at: string;
  readonly expires_at?: string;
}

/** A row of the read model `proxies`, with the name of its application for the answer. */
export interface ProxyRow extends Omit<ReactorRow, 'code'> {
  readonly destination: string;
  readonly destinations: readonly string[];
  readonly request_code: string | null;
  readonly response_code: string | null;
  readonly require_auth: boolean;
  readonly configuration: SealedValue;
  readonly keys: readonly StoredKey[];
}

const columns = sql`p.tenant_id, p.id, p.name, p.destination, p.destinations, p.request_code, p.response_code, p.require_auth,
  p.configuration, p.application_id, p.keys, p.signature, a.name as application_name, a.type as application_type,
  p.created_by, p.created_at, p.modified_by, p.modified_at`;

const withApplication = (now: Date): Sql => sql`rm_proxies.proxy p
  left join rm_applications.application a
    on a.id = p.application_id and a.tenant_id = p.tenant_id and (a.expires_at is null or a.expires_at > ${now})`;

export async function findProxy(
  pool: Pool,
  tenantId: string,
  id: string,
  now: Date,
): Promise<ProxyRow | undefined> {
  const statement = sql`select ${columns} from ${withApplication(now)}
    where p.tenant_id = ${tenantId}::uuid and p.id = ${id}::uuid`;
  return (await pool.query<ProxyRow>({ name: 'find_proxy', ...compile(statement) })).rows[0];
}

/** A tenant's proxies, newest first. */
export function listProxies(
  reader: Reader,
  { tenantId, now }: { readonly tenantId: string; readonly now: Date },
  { ids, name }: ReactorFilters,
  page: PageRequest,
): Promise<Page<ProxyRow>> {
  const condition = allOf([
    sql`p.tenant_id = ${tenantId}::uuid`,
    ...(ids.length > 0 ? [sql`p.id = any(${ids}::uuid[])`] : []),
    ...nameIs(sql`p.name`, name),
  ]);
  return fetchPage(
    page,
    () => totalOf(reader, sql`select count(*)::float8 as total from rm_proxies.proxy p where ${condition}`),
    async () => {
      const statement = sql`select ${columns} from ${withApplication(now)} where ${condition}
        order by p.seq desc, p.id ${limits(page)}`;
      return (await reader.query<ProxyRow>(compile(statement))).rows;
    },
  );
}
