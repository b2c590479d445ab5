import { unwrapIndexKey, wrapIndexKey } from '../src/key-ring/index-key.ts';
import { keyBinding } from '../src/key-ring/key-binding.ts';
import { deriveTenantKey } from '../src/key-ring/tenant-key.ts';
import type { KeyRing, RootKeyProvider } from '../src/index.ts';
import type { Pool } from 'pg';

/** Gives a tenant keys in the form of a release that did not sign. Needs the root key. */
export async function asOlderRelease(
  { pool, rootKey, keyRing }: { pool: Pool; rootKey: RootKeyProvider; keyRing: KeyRing },
  tenantId: string,
): Promise<void> {
  const { rows } = await pool.query<{ version: number; wrapped: Buffer; index_wrapped: Buffer }>(
    `select version, t.wrapped, i.wrapped as index_wrapped
       from key_ring.tenant_key t join key_ring.tenant_index_key i using (tenant_id) where tenant_id = $1`,
    [tenantId],
  );
  const [row] = rows;
  if (!row) throw new Error('the tenant has no keys');
  const { version, wrapped } = row;
  const bytes = await rootKey.unwrap(wrapped, keyBinding.tenantKey(tenantId, version, rootKey.id));
  const owner = deriveTenantKey(tenantId, version, bytes);
  const { indexKey } = unwrapIndexKey(owner, row.index_wrapped);
  await pool.query('update key_ring.tenant_index_key set wrapped = $2 where tenant_id = $1', [
    tenantId,
    wrapIndexKey(owner, indexKey, 'accepts-unsigned'),
  ]);
  keyRing.forgetTenant(tenantId);
}
