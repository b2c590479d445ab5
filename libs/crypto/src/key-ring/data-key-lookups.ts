import { createBatcher } from '@token-vault/batching';
import type { Pool } from 'pg';
import { DataKey } from '../data-key.ts';
import { KeyDestroyedError } from '../errors.ts';
import type { Clock } from './clock.ts';
import { unwrapDataKey } from './data-key-inserts.ts';
import type { TenantKey } from './tenant-key.ts';
import type { TenantKeys } from './tenant-keys.ts';

interface DataKeyRow {
  readonly id: string;
  readonly tenant_id: string;
  readonly tenant_key_version: number;
  readonly entity: string;
  readonly purpose: string;
  readonly wrapped: Buffer;
}

interface Wanted {
  readonly tenantId: string;
  readonly keyId: string;
}

/** An expired key does not open, even if the sweeper is late. A key of a destroyed tenant does not open. */
const lookupStatement = `
select d.id, d.tenant_id, d.tenant_key_version, d.entity, d.purpose, d.wrapped
from key_ring.data_key d
where d.id = any($1::uuid[]) and (d.destroy_after is null or d.destroy_after > $2)
  and exists (select from key_ring.tenant_key t
              where t.tenant_id = d.tenant_id and t.version = d.tenant_key_version)`;

const maxKeysOfBatch = 500;

/**
 * Reads data keys, gathering concurrent calls. Keys are never cached: a key that one replica destroyed is unusable on all replicas at once.
 * For the same reason `pool` must be the primary, never a read replica.
 */
export function createDataKeyLookups(
  pool: Pool,
  tenantKeys: TenantKeys,
  clock: Clock,
): (wanted: Wanted) => Promise<DataKey> {
  const rows = createBatcher<Wanted, DataKeyRow>({
    maxItems: maxKeysOfBatch,
    concurrency: 2,
    run: async (items) => {
      const result = await pool.query<DataKeyRow>({
        name: 'key_ring_find_data_keys',
        text: lookupStatement,
        values: [`{${items.map((item) => item.keyId).join(',')}}`, clock.now()],
      });
      const byId = new Map(result.rows.map((row) => [row.id, row]));
      return items.map((item) => {
        const row = byId.get(item.keyId);
        return row?.tenant_id === item.tenantId ? row : new KeyDestroyedError(item.keyId);
      });
    },
  });

  async function tenantKeyOf(row: DataKeyRow): Promise<TenantKey | undefined> {
    const held = (await tenantKeys.get(row.tenant_id)).versions.get(row.tenant_key_version);
    return held ?? (await tenantKeys.reload(row.tenant_id)).versions.get(row.tenant_key_version);
  }

  return async (wanted) => {
    // The second round is for a key that a rotation wrapped again between the read of the key and the read of its tenant key.
    for (let round = 0; round < 2; round += 1) {
      const row = await rows.add(wanted);
      const tenantKey = await tenantKeyOf(row);
      if (!tenantKey) continue;
      const identity = { id: row.id, tenantId: row.tenant_id, entity: row.entity, purpose: row.purpose };
      return new DataKey(identity, unwrapDataKey(tenantKey, identity, row.wrapped));
    }
    throw new KeyDestroyedError(wanted.keyId);
  };
}
