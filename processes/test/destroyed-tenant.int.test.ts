import {
  createKeyRing,
  environmentRootKey,
  keyRingMigrations,
  TenantKeysMissingError,
} from '@token-vault/crypto';
import { listenForAccessChanges } from '@token-vault/authentication';
import { silentLogger } from '@token-vault/observability';
import { systemClock } from '@token-vault/operations';
import { createTestDatabase, createTestPool, waitUntil } from '@token-vault/test-support';
import { randomBytes, randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';

it('keys of a tenant that one replica destroys leave the memory of the others', async () => {
  const database = await createTestDatabase();
  const pool = createTestPool(database.url);
  for (const { sql } of keyRingMigrations) await pool.query(sql);
  const options = {
    pool,
    rootKey: environmentRootKey(randomBytes(32).toString('hex')),
    clock: systemClock,
    durability: 'own',
  } as const;
  const destroyer = await createKeyRing(options);
  const lookups: string[] = [];
  const other = await createKeyRing({ ...options, onTenantKeys: (outcome) => lookups.push(outcome) });
  const forgotten: string[] = [];
  const changes = await listenForAccessChanges({
    connectionString: database.url,
    logger: silentLogger,
    onChange: () => undefined,
    onTenantKeysDestroyed: (tenantId) => {
      other.forgetTenant(tenantId);
      forgotten.push(tenantId);
    },
  });
  try {
    const tenantId = randomUUID();
    await destroyer.createTenantKeys(tenantId);
    await other.hashes(tenantId);
    await other.hashes(tenantId);
    expect(lookups).toEqual(['loaded', 'held']);
    await destroyer.destroyAllOfTenant(tenantId);
    await waitUntil(() => forgotten.includes(tenantId));
    await expect(other.hashes(tenantId)).rejects.toThrow(TenantKeysMissingError);
    expect(lookups.at(-1)).toBe('loaded');
  } finally {
    await changes.close();
    await pool.end();
    await database.drop();
  }
});
