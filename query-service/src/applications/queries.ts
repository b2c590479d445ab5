import {
  aliased,
  applicationStatement,
  type AccessRule,
  type ApplicationType,
  type Permission,
} from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { RequestContext } from '@token-vault/operations';
import type { Knex } from 'knex';
import type { Pool } from 'pg';
import type { FairReads, Reader } from '../fair-reads.ts';
import { listNewest, type Page, type PageRequest } from '../paging.ts';
import { requireSigned, type SignedRow } from '../signed-rows.ts';
import { allOf, db, isOneOf, sql } from '../statements.ts';

export interface StoredKey {
  readonly id: string;
  readonly hash: string;
  readonly created_at: string;
  readonly expires_at?: string;
}

/** A row of the read model `applications`. Its hashes of keys are never shown. */
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
  /** Null when the main key was deleted. */
  readonly key_hash: string | null;
  readonly key_id: string | null;
  readonly key_created_at: Date;
  /** All keys except the main one. */
  readonly keys: readonly StoredKey[];
  readonly signature: string | null;
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
  a.key_hash,
  a.key_id,
  a.key_created_at,
  a.keys,
  a.signature,
];

interface ApplicationFilters {
  readonly ids: readonly string[];
  readonly types: readonly ApplicationType[];
}

/** An expired application is treated as absent from the instant of its expiry. The present instant and `)` follow this text. */
const isNotExpired = `(${a.expires_at} is null or ${a.expires_at} >`;
const find = {
  name: 'find_application',
  text: `select ${columns.join(', ')} from ${a.source} where ${a.tenant_id} = $1 and ${isNotExpired} $2) and ${a.id} = $3`,
};

interface Tenant {
  readonly tenantId: string;
  readonly now: Date;
}

export interface Applications {
  /** An application of the tenant. @throws AlteredRecordError */
  find(tenant: Tenant, id: string): Promise<ApplicationRow | undefined>;
  /** A page of the tenant's applications, newest first. @throws AlteredRecordError */
  list(
    context: RequestContext,
    filters: ApplicationFilters,
    page: PageRequest,
  ): Promise<Page<ApplicationRow>>;
}

export interface ApplicationSources {
  readonly pool: Pool;
  readonly reads: FairReads;
  readonly keyRing: Pick<KeyRing, 'hashes'>;
}

/** Finds applications. Every row is checked against its signature, so no altered one is shown. */
export function createApplications({ pool, reads, keyRing }: ApplicationSources): Applications {
  return {
    async find({ tenantId, now }, id) {
      const { rows } = await pool.query<ApplicationRow>({ ...find, values: [tenantId, now, id] });
      await requireSigned(keyRing, tenantId, rows.map(signed));
      return rows[0];
    },
    async list(context, filters, page) {
      const { principal, now } = context;
      const tenantId = principal.tenant.id;
      const found = await readPage(reads.of(context), { tenantId, now }, filters, page);
      await requireSigned(keyRing, tenantId, found.data.map(signed));
      return found;
    },
  };
}

function signed(row: ApplicationRow): SignedRow {
  const { key_hash: keyHash, key_id: keyId, expires_at_text: expiresAt, signature } = row;
  return { statement: applicationStatement({ ...row, keyHash, keyId, expiresAt }), signature };
}

function readPage(
  reader: Reader,
  { tenantId, now }: Tenant,
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
