import { randomBytes } from 'node:crypto';
import type { Pool, PoolClient } from 'pg';
import { keyLength } from '../aead.ts';
import { TenantKeysMissingError } from '../errors.ts';
import { wrappedKeyLength } from '../wrapping.ts';
import type { Clock } from './clock.ts';
import { unwrapDataKey, wrapDataKey } from './data-key-inserts.ts';
import { unwrapIndexKey, wrapIndexKey } from './index-key.ts';
import { keyBinding } from './key-binding.ts';
import type { RootKeySet } from './root-key-set.ts';
import { withRotationLock } from './rotation-lock.ts';
import type { TenantKeys, TenantKeyset } from './tenant-keys.ts';
import { inTransaction } from './transaction.ts';

export interface TenantRotationOptions {
  readonly pool: Pool;
  readonly rootKeys: RootKeySet;
  readonly tenantKeys: TenantKeys;
  readonly clock: Clock;
}

interface DataKeyRow {
  readonly id: string;
  readonly tenant_key_version: number;
  readonly entity: string;
  readonly purpose: string;
  readonly wrapped: Buffer;
}

const portion = 500;

/**
 * Makes a new key for a tenant, wraps its data keys and index key by the new key, and deletes the old one. Sealed data does not change;
 * fingerprints and blind indexes keep their values. Online and resumable: an interrupted rotation continues with the version that it had
 * begun.
 * @returns how many data keys this call wrapped
 * @throws TenantKeysMissingError, RotationInProgressError
 */
export function rotateTenant(options: TenantRotationOptions, tenantId: string): Promise<number> {
  return withRotationLock(options.pool, `the key of tenant ${tenantId}`, async () => {
    const { pool, tenantKeys } = options;
    const held = await tenantKeys.reload(tenantId);
    if (held.versions.size === 1) await addVersion(options, tenantId, held.current.version + 1);
    const keyset = await tenantKeys.reload(tenantId);
    let wrapped = await rewrapDataKeys(pool, keyset);
    await inTransaction(pool, async (client) => {
      // A transaction that stores a data key under an old version locks that version's row until it commits. After this lock there is none.
      await client.query(
        `select from key_ring.tenant_key where tenant_id = $1 and version < $2 order by version for update`,
        [tenantId, keyset.current.version],
      );
      wrapped += await rewrapDataKeys(client, keyset);
      await rewrapIndexKey(client, keyset);
      await client.query(`delete from key_ring.tenant_key where tenant_id = $1 and version < $2`, [
        tenantId,
        keyset.current.version,
      ]);
    });
    await tenantKeys.reload(tenantId);
    return wrapped;
  });
}

/** Locks the tenant's index-key row, which the destruction of a tenant deletes first. */
async function addVersion(options: TenantRotationOptions, tenantId: string, version: number): Promise<void> {
  const { pool, rootKeys, clock } = options;
  for (let round = 0; round < 3; round += 1) {
    const rootKey = await rootKeys.current(pool);
    const bytes = randomBytes(keyLength);
    const wrapped = await rootKey.wrap(bytes, keyBinding.tenantKey(tenantId, version, rootKey.id));
    bytes.fill(0);
    const { rowCount } = await pool.query(
      `with root as materialized (
         select from key_ring.root_key where root_key_id = $3 and retired_at is null for key share
       ), tenant as materialized (
         select from key_ring.tenant_index_key where tenant_id = $1 for key share
       )
       insert into key_ring.tenant_key (tenant_id, version, root_key_id, wrapped, created_at)
       select $1, $2, $3, $4, $5 from root cross join tenant`,
      [tenantId, version, rootKey.id, wrapped, clock.now()],
    );
    if (rowCount === 1) return;
  }
  throw new TenantKeysMissingError(tenantId);
}

async function rewrapDataKeys(database: Pool | PoolClient, keyset: TenantKeyset): Promise<number> {
  const { tenantId, version } = keyset.current;
  let total = 0;
  let entity = '';
  for (;;) {
    const { rows } = await database.query<DataKeyRow>(
      `select id, tenant_key_version, entity, purpose, wrapped from key_ring.data_key
       where tenant_id = $1 and entity >= $2 and tenant_key_version < $3 order by entity limit $4`,
      [tenantId, entity, version, portion],
    );
    const last = rows.at(-1);
    if (!last) return total;
    entity = last.entity;
    total += await store(database, keyset, rows);
  }
}

/** A data key that was destroyed meanwhile has no row to update: it stays destroyed. */
async function store(
  database: Pool | PoolClient,
  keyset: TenantKeyset,
  rows: readonly DataKeyRow[],
): Promise<number> {
  const wrapped = rows.map((row) => rewrapDataKey(keyset, row));
  const { rowCount } = await database.query(
    `with fresh as (
       select n.id, substring($2::bytea from ((n.ordinal - 1) * ${wrappedKeyLength} + 1)::integer
                              for ${wrappedKeyLength}) as wrapped
       from unnest($1::uuid[]) with ordinality as n (id, ordinal)
     ), locked as materialized (
       select id from key_ring.data_key where id = any($1::uuid[]) order by id for update
     )
     update key_ring.data_key d set wrapped = fresh.wrapped, tenant_key_version = $3
     from fresh join locked using (id)
     where d.id = fresh.id and d.tenant_key_version < $3`,
    [rows.map((row) => row.id), Buffer.concat(wrapped), keyset.current.version],
  );
  return rowCount ?? 0;
}

function rewrapDataKey(keyset: TenantKeyset, row: DataKeyRow): Buffer {
  const { tenantId } = keyset.current;
  const identity = { id: row.id, tenantId, entity: row.entity, purpose: row.purpose };
  const from = keyset.versions.get(row.tenant_key_version);
  if (!from) throw new TenantKeysMissingError(tenantId);
  const bytes = unwrapDataKey(from, identity, row.wrapped);
  const wrapped = wrapDataKey(keyset.current, identity, bytes);
  bytes.fill(0);
  return wrapped;
}

async function rewrapIndexKey(client: PoolClient, keyset: TenantKeyset): Promise<void> {
  const { tenantId, version } = keyset.current;
  const { rows } = await client.query<{ tenant_key_version: number; wrapped: Buffer }>(
    `select tenant_key_version, wrapped from key_ring.tenant_index_key where tenant_id = $1 for update`,
    [tenantId],
  );
  const [row] = rows;
  const from = row && keyset.versions.get(row.tenant_key_version);
  if (!from) throw new TenantKeysMissingError(tenantId);
  const { indexKey, form } = unwrapIndexKey(from, row.wrapped);
  const wrapped = wrapIndexKey(keyset.current, indexKey, form);
  indexKey.fill(0);
  await client.query(
    `update key_ring.tenant_index_key set wrapped = $2, tenant_key_version = $3 where tenant_id = $1`,
    [tenantId, wrapped, version],
  );
}
