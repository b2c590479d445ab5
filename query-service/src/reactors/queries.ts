import type { ApplicationType } from '@token-vault/contracts';
import type { SealedValue } from '@token-vault/crypto';
import type { Pool } from 'pg';
import type { Reader } from '../fair-reads.ts';
import { fetchPage, limits, totalOf, type Page, type PageRequest } from '../paging.ts';
import { allOf, compile, sql, type Sql } from '../sql.ts';

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

const columns = sql`r.tenant_id, r.id, r.name, r.code, r.configuration, r.application_id, r.signature,
  a.name as application_name, a.type as application_type, r.created_by, r.created_at, r.modified_by, r.modified_at`;

const withApplication = (now: Date): Sql => sql`rm_reactors.reactor r
  left join rm_applications.application a
    on a.id = r.application_id and a.tenant_id = r.tenant_id and (a.expires_at is null or a.expires_at > ${now})`;

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
export const nameIs = (column: Sql, name: string | undefined): readonly Sql[] =>
  name === undefined ? [] : [sql`${column} ilike ${namePattern(name)}`];

export async function findReactor(
  pool: Pool,
  tenantId: string,
  id: string,
  now: Date,
): Promise<ReactorRow | undefined> {
  const statement = sql`select ${columns} from ${withApplication(now)}
    where r.tenant_id = ${tenantId}::uuid and r.id = ${id}::uuid`;
  return (await pool.query<ReactorRow>({ name: 'find_reactor', ...compile(statement) })).rows[0];
}

/** A tenant's reactors, newest first. */
export function listReactors(
  reader: Reader,
  { tenantId, now }: { readonly tenantId: string; readonly now: Date },
  { ids, name }: ReactorFilters,
  page: PageRequest,
): Promise<Page<ReactorRow>> {
  const condition = allOf([
    sql`r.tenant_id = ${tenantId}::uuid`,
    ...(ids.length > 0 ? [sql`r.id = any(${ids}::uuid[])`] : []),
    ...nameIs(sql`r.name`, name),
  ]);
  return fetchPage(
    page,
    () =>
      totalOf(reader, sql`select count(*)::float8 as total from rm_reactors.reactor r where ${condition}`),
    async () => {
      const statement = sql`select ${columns} from ${withApplication(now)} where ${condition}
        order by r.seq desc, r.id ${limits(page)}`;
      return (await reader.query<ReactorRow>(compile(statement))).rows;
    },
  );
}
