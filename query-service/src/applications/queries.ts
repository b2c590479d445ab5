import type { AccessRule, ApplicationType, Permission } from '@token-vault/contracts';
import type { Pool } from 'pg';
import type { Reader } from '../fair-reads.ts';
import { fetchPage, limits, totalOf, type Page, type PageRequest } from '../paging.ts';
import { allOf, compile, sql, type Sql } from '../sql.ts';

/** A row of the read model `applications`, without the hash of the key. */
export interface ApplicationRow {
  readonly tenant_id: string;
  readonly id: string;
  readonly name: string;
  readonly type: ApplicationType;
  readonly permissions: Permission[];
  readonly rules: AccessRule[];
  readonly created_by: string | null;
  readonly created_at: Date;
  readonly modified_by: string | null;
  readonly modified_at: Date | null;
  readonly expires_at: Date | null;
  readonly expires_at_text: string | null;
}

const columns = sql`a.tenant_id, a.id, a.name, a.type, a.permissions, a.rules, a.created_by, a.created_at,
  a.modified_by, a.modified_at, a.expires_at, a.expires_at_text`;

export interface ApplicationFilters {
  readonly ids: readonly string[];
  readonly types: readonly ApplicationType[];
}

/** An expired application is treated as absent from the instant of its expiry. */
const isThere = (tenantId: string, now: Date): Sql =>
  sql`a.tenant_id = ${tenantId}::uuid and (a.expires_at is null or a.expires_at > ${now})`;

export async function findApplication(
  pool: Pool,
  tenantId: string,
  id: string,
  now: Date,
): Promise<ApplicationRow | undefined> {
  const statement = sql`select ${columns} from rm_applications.application a
    where ${isThere(tenantId, now)} and a.id = ${id}::uuid`;
  return (await pool.query<ApplicationRow>({ name: 'find_application', ...compile(statement) })).rows[0];
}

export interface KeysRow {
  readonly id: string;
  readonly has_main: boolean;
  readonly key_id: string | null;
  readonly key_created_at: Date;
  readonly keys: readonly {
    readonly id: string;
    readonly created_at: string;
    readonly expires_at?: string;
  }[];
}

/** The keys of an application, without what could be used as one. */
export async function findKeys(
  pool: Pool,
  tenantId: string,
  id: string,
  now: Date,
): Promise<KeysRow | undefined> {
  const statement = sql`select a.id, a.key_hash is not null as has_main, a.key_id, a.key_created_at, a.keys
    from rm_applications.application a where ${isThere(tenantId, now)} and a.id = ${id}::uuid`;
  return (await pool.query<KeysRow>({ name: 'find_application_keys', ...compile(statement) })).rows[0];
}

/** A tenant's applications, newest first. */
export function listApplications(
  reader: Reader,
  { tenantId, now }: { readonly tenantId: string; readonly now: Date },
  { ids, types }: ApplicationFilters,
  page: PageRequest,
): Promise<Page<ApplicationRow>> {
  const condition = allOf([
    isThere(tenantId, now),
    ...(ids.length > 0 ? [sql`a.id = any(${ids}::uuid[])`] : []),
    ...(types.length > 0 ? [sql`a.type = any(${types}::text[])`] : []),
  ]);
  return fetchPage(
    page,
    () =>
      totalOf(
        reader,
        sql`select count(*)::float8 as total from rm_applications.application a where ${condition}`,
      ),
    async () => {
      const fetch = sql`select ${columns} from rm_applications.application a where ${condition}
        order by a.seq desc, a.id ${limits(page)}`;
      return (await reader.query<ApplicationRow>(compile(fetch))).rows;
    },
  );
}
