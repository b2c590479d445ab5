import { aliased, type ApplicationType } from '@token-vault/contracts';
import type { Knex } from 'knex';
import type { SealedValue } from '@token-vault/crypto';
import type { Pool } from 'pg';
import type { Reader } from '../fair-reads.ts';
import { listNewest, type Page, type PageRequest } from '../paging.ts';
import { allOf, db, isOneOf, sql, type Sql } from '../statements.ts';

/** A row of the read model `reactors`, with the name of its application for the answer. */
export interface ReactorRow {
  readonly tenant_id: string;
  readonly id: string;
  readonly name: string;
  readonly code: string;
  readonly configuration: SealedValue;
  readonly application_id: string | null;
  readonly signature: string | null;
  /** Null when the application is deleted or expired. */
  readonly application_name: string | null;
  readonly application_type: ApplicationType | null;
  readonly created_by: string | null;
  readonly created_at: Date;
  readonly modified_by: string | null;
  readonly modified_at: Date | null;
}

const r = aliased('reactors', 'reactor', 'r');
const a = aliased('applications', 'application', 'a');

const columns = [
  r.tenant_id,
  r.id,
  r.name,
  r.code,
  r.configuration,
  r.application_id,
  r.signature,
  `${a.name} as application_name`,
  `${a.type} as application_type`,
  r.created_by,
  r.created_at,
  r.modified_by,
  r.modified_at,
];

/** The condition that `a` is the application of `owner` and has not expired. The present instant and `)` follow this text. */
export const isApplicationOf = (owner: {
  readonly application_id: string;
  readonly tenant_id: string;
}): string =>
  `${a.id} = ${owner.application_id} and ${a.tenant_id} = ${owner.tenant_id}
    and (${a.expires_at} is null or ${a.expires_at} >`;

export interface ReactorFilters {
  readonly ids: readonly string[];
  /**
   * `*` stands for any run of characters. A pattern without `*` matches every name that contains it (rules.md §10).
   */
  readonly name: string | undefined;
}

/** `\`, `%` and `_` are escaped, so that they match themselves. */
function namePattern(name: string): string {
  const literal = name.replaceAll(/[\\%_]/g, String.raw`\$&`);
  return literal.includes('*') ? literal.replaceAll(/\*+/g, '%') : `%${literal}%`;
}

/** The condition of a name, if one is given. */
export const nameIs = (column: string, name: string | undefined): readonly Sql[] =>
  name === undefined ? [] : [sql(`${column} ilike ?`, namePattern(name))];

const byId = {
  name: 'find_reactor',
  text: `select ${columns.join(', ')} from ${r.source} left join ${a.source} on ${isApplicationOf(r)} $1)
    where ${r.tenant_id} = $2 and ${r.id} = $3`,
};

export async function findReactor(
  pool: Pool,
  tenantId: string,
  id: string,
  now: Date,
): Promise<ReactorRow | undefined> {
  return (await pool.query<ReactorRow>({ ...byId, values: [now, tenantId, id] })).rows[0];
}

/** A tenant's reactors, newest first. */
export function listReactors(
  reader: Reader,
  { tenantId, now }: { readonly tenantId: string; readonly now: Date },
  { ids, name }: ReactorFilters,
  page: PageRequest,
): Promise<Page<ReactorRow>> {
  const chosen = db(r.source)
    .where(r.tenant_id, tenantId)
    .where(allOf([...isOneOf(r.id, 'uuid', ids), ...nameIs(r.name, name)]));
  const withColumns = (query: Knex.QueryBuilder) =>
    query.select(columns).joinRaw(`left join ${a.source} on ${isApplicationOf(r)} ?)`, [now]);
  return listNewest<ReactorRow>({ reader, chosen, of: r, withColumns }, page);
}
