import { aliased, type AccessRule, type ApplicationType, type Permission } from '@token-vault/contracts';
import type { Knex } from 'knex';
import type { Pool } from 'pg';
import type { Reader } from '../fair-reads.ts';
import { listNewest, type Page, type PageRequest } from '../paging.ts';
import { allOf, db, isOneOf, sql } from '../statements.ts';

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

const a = aliased('applications', 'application', 'a');

const columns = [
  a.tenant_id,
  a.id,
  a.name,
  a.type,
  a.permissions,
  a.rules,
  a.created_by,
  a.created_at,
  a.modified_by,
  a.modified_at,
  a.expires_at,
  a.expires_at_text,
];

export interface ApplicationFilters {
  readonly ids: readonly string[];
  readonly types: readonly ApplicationType[];
}

/** An expired application is treated as absent from the instant of its expiry. The present instant and `)` follow this text. */
const isNotExpired = `(${a.expires_at} is null or ${a.expires_at} >`;
const byId = `from ${a.source} where ${a.tenant_id} = $1 and ${isNotExpired} $2) and ${a.id} = $3`;

export async function findApplication(
  pool: Pool,
  tenantId: string,
  id: string,
  now: Date,
): Promise<ApplicationRow | undefined> {
  const text = `select ${columns.join(', ')} ${byId}`;
  const values = [tenantId, now, id];
  return (await pool.query<ApplicationRow>({ name: 'find_application', text, values })).rows[0];
}

export interface StoredKey {
  readonly id: string;
  readonly hash: string;
  readonly created_at: string;
  readonly expires_at?: string;
}

export interface KeysRow {
  readonly id: string;
  readonly key_hash: string | null;
  readonly key_id: string | null;
  readonly key_created_at: Date;
  /** All keys except the main one. */
  readonly keys: readonly StoredKey[];
}

/** The keys of an application, by their hashes. */
export async function findKeys(
  pool: Pool,
  tenantId: string,
  id: string,
  now: Date,
): Promise<KeysRow | undefined> {
  const text = `select ${a.id}, ${a.key_hash}, ${a.key_id}, ${a.key_created_at}, ${a.keys} ${byId}`;
  const values = [tenantId, now, id];
  return (await pool.query<KeysRow>({ name: 'find_application_keys', text, values })).rows[0];
}

/** A tenant's applications, newest first. */
export function listApplications(
  reader: Reader,
  { tenantId, now }: { readonly tenantId: string; readonly now: Date },
  { ids, types }: ApplicationFilters,
  page: PageRequest,
): Promise<Page<ApplicationRow>> {
  const chosen = db(a.source)
    .where(a.tenant_id, tenantId)
    .where(
      allOf([
        sql(`${isNotExpired} ?)`, now),
        ...isOneOf(a.id, 'uuid', ids),
        ...isOneOf(a.type, 'text', types),
      ]),
    );
  const withColumns = (query: Knex.QueryBuilder) => query.select(columns);
  return listNewest<ApplicationRow>({ reader, chosen, of: a, withColumns }, page);
}
