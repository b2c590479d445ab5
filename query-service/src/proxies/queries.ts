import { aliased } from '@token-vault/contracts';
import type { Knex } from 'knex';
import type { SealedValue } from '@token-vault/crypto';
import type { Pool } from 'pg';
import type { Reader } from '../fair-reads.ts';
import type { StoredKey } from '../applications/queries.ts';
import { listNewest, type Page, type PageRequest } from '../paging.ts';
import { isApplicationOf, nameIs, type ReactorFilters, type ReactorRow } from '../reactors/queries.ts';
import { allOf, db, isOneOf } from '../statements.ts';

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

const p = aliased('proxies', 'proxy', 'p');
const a = aliased('applications', 'application', 'a');

const columns = [
  p.tenant_id,
  p.id,
  p.name,
  p.destination,
  p.destinations,
  p.request_code,
  p.response_code,
  p.require_auth,
  p.configuration,
  p.application_id,
  p.keys,
  p.signature,
  `${a.name} as application_name`,
  `${a.type} as application_type`,
  p.created_by,
  p.created_at,
  p.modified_by,
  p.modified_at,
];
const byId = {
  name: 'find_proxy',
  text: `select ${columns.join(', ')} from ${p.source} left join ${a.source} on ${isApplicationOf(p)} $1)
    where ${p.tenant_id} = $2 and ${p.id} = $3`,
};

export async function findProxy(
  pool: Pool,
  tenantId: string,
  id: string,
  now: Date,
): Promise<ProxyRow | undefined> {
  return (await pool.query<ProxyRow>({ ...byId, values: [now, tenantId, id] })).rows[0];
}

/** A tenant's proxies, newest first. */
export function listProxies(
  reader: Reader,
  { tenantId, now }: { readonly tenantId: string; readonly now: Date },
  { ids, name }: ReactorFilters,
  page: PageRequest,
): Promise<Page<ProxyRow>> {
  const chosen = db(p.source)
    .where(p.tenant_id, tenantId)
    .where(allOf([...isOneOf(p.id, 'uuid', ids), ...nameIs(p.name, name)]));
  const withColumns = (query: Knex.QueryBuilder) =>
    query.select(columns).joinRaw(`left join ${a.source} on ${isApplicationOf(p)} ?)`, [now]);
  return listNewest<ProxyRow>({ reader, chosen, of: p, withColumns }, page);
}
