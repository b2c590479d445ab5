import { createBatcher } from '@token-vault/batching';
import type { Pool } from 'pg';
import type { DataKeyIdentity } from '../data-key.ts';
import { TenantKeysMissingError } from '../errors.ts';
import { unwrapKey, wrapKey, wrappedKeyLength } from '../wrapping.ts';
import { keyBinding } from './key-binding.ts';
import type { TenantKey } from './tenant-key.ts';
import type { TenantKeys } from './tenant-keys.ts';

/**
 * When a stored data key is durable. `own`: at its own commit. `follows-log`: when the next event append to the same database commits. WAL
 * is flushed in order, so a confirmed append also has the keys on disk that it saw, and the insert does not wait for a flush of its own.
 * This is only safe when the append receives the keys (`AppendOptions` of the event store) and checks that they are there: Postgres may
 * have crashed in between and recovered without them.
 */
export type KeyDurability = 'own' | 'follows-log';

export interface DataKeyRecord extends DataKeyIdentity {
  readonly wrappedBy: TenantKey;
  readonly wrapped: Buffer;
  readonly createdAt: string;
  readonly destroyAfter: string | null;
  readonly durability: KeyDurability;
}

/**
 * One statement, one transaction and one round trip for each batch. `set_config(…, true)` lasts until this statement commits, so the
 * connection's setting stays as it was.
 *
 * A key is stored only while the tenant key that wraps it exists. The statement locks the tenant key (one lock for each tenant of a batch).
 * So the last step of a rotation and the destruction of a tenant wait for this statement, and it waits for them: no row stays behind under
 * a deleted tenant key.
 */
const insertStatement = `
with durability as materialized (
  select set_config('synchronous_commit', $9, true)
), live as materialized (
  select tenant_id, version from key_ring.tenant_key
  where (tenant_id, version) in (select * from unnest($2::uuid[], $3::integer[]))
  order by tenant_id, version
  for key share
)
insert into key_ring.data_key
  (id, tenant_id, tenant_key_version, purpose, entity, created_at, destroy_after, wrapped)
select k.id, k.tenant_id, k.version, k.purpose, k.entity, k.created_at, k.destroy_after,
  substring($8::bytea from ((k.ordinal - 1) * ${wrappedKeyLength} + 1)::integer for ${wrappedKeyLength})
from unnest($1::uuid[], $2::uuid[], $3::integer[], $4::text[], $5::text[], $6::timestamptz[], $7::timestamptz[])
  with ordinality as k (id, tenant_id, version, purpose, entity, created_at, destroy_after, ordinal)
join live using (tenant_id, version) cross join durability
returning id`;

/** Undefined when the key was stored, else the error. */
type Outcome = Error | undefined;

const attempts = 3;
const maxKeysOfBatch = 500;

/** Gives the ids of the keys that were stored. */
async function insert(pool: Pool, records: readonly DataKeyRecord[]): Promise<ReadonlySet<string>> {
  const { rows } = await pool.query<[string]>({
    name: 'key_ring_insert_data_keys',
    text: insertStatement,
    rowMode: 'array',
    values: [
      arrayOf(records, (record) => record.id),
      arrayOf(records, (record) => record.tenantId),
      arrayOf(records, (record) => String(record.wrappedBy.version)),
      records.map((record) => record.purpose),
      records.map((record) => record.entity),
      arrayOf(records, (record) => `"${record.createdAt}"`),
      arrayOf(records, (record) => (record.destroyAfter === null ? 'null' : `"${record.destroyAfter}"`)),
      Buffer.concat(records.map((record) => record.wrapped)),
      records.some(({ durability }) => durability === 'own') ? 'on' : 'off',
    ],
  });
  return new Set(rows.map(([id]) => id));
}

/** Stores data keys, gathering concurrent calls. The promise resolves when the key is as durable as the request asks. */
export function createDataKeyInserts(
  pool: Pool,
  tenantKeys: TenantKeys,
): (record: DataKeyRecord) => Promise<void> {
  /**
   * If a rotation deleted the tenant key meanwhile, its data keys are not stored: they are wrapped under the new tenant key and stored
   * again.
   */
  async function store(records: readonly DataKeyRecord[]): Promise<Outcome[]> {
    const outcomes = new Map<string, Outcome>();
    let pending = records;
    for (let attempt = 0; pending.length > 0 && attempt < attempts; attempt += 1) {
      const storedIds = await insert(pool, pending);
      const left = pending.filter((record) => !storedIds.has(record.id));
      pending = left.length === 0 ? left : await rewrapAll(left, outcomes);
    }
    for (const record of pending) outcomes.set(record.id, new TenantKeysMissingError(record.tenantId));
    return records.map((record) => outcomes.get(record.id));
  }

  async function rewrapAll(
    records: readonly DataKeyRecord[],
    outcomes: Map<string, Outcome>,
  ): Promise<DataKeyRecord[]> {
    const rewrapped: DataKeyRecord[] = [];
    for (const [tenantId, ofTenant] of Map.groupBy(records, (record) => record.tenantId)) {
      try {
        const { current } = await tenantKeys.reload(tenantId);
        rewrapped.push(...ofTenant.map((record) => rewrap(record, current)));
      } catch (error) {
        const failure =
          error instanceof Error ? error : new Error('tenant keys cannot be read', { cause: error });
        for (const record of ofTenant) outcomes.set(record.id, failure);
      }
    }
    return rewrapped;
  }

  const batcher = createBatcher<DataKeyRecord, void>({
    run: store,
    maxItems: maxKeysOfBatch,
    concurrency: 2,
  });
  return (record) => batcher.add(record);
}

function rewrap(record: DataKeyRecord, current: TenantKey): DataKeyRecord {
  const bytes = unwrapDataKey(record.wrappedBy, record, record.wrapped);
  const wrapped = wrapDataKey(current, record, bytes);
  bytes.fill(0);
  return { ...record, wrappedBy: current, wrapped };
}

export function wrapDataKey(tenantKey: TenantKey, key: DataKeyIdentity, bytes: Buffer): Buffer {
  return wrapKey(tenantKey.dataKeyWrapping, bytes, keyBinding.dataKey(key, tenantKey.version));
}

/** @throws SealBrokenError when the row is not the one that was stored for this key. */
export function unwrapDataKey(tenantKey: TenantKey, key: DataKeyIdentity, wrapped: Buffer): Buffer {
  return unwrapKey(tenantKey.dataKeyWrapping, wrapped, keyBinding.dataKey(key, tenantKey.version));
}

/** An array literal whose elements need no escaping; twice as fast as the driver's general function. */
function arrayOf<T>(items: readonly T[], text: (item: T) => string): string {
  return `{${items.map(text).join(',')}}`;
}
