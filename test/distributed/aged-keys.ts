import { createTestPool } from '@token-vault/test-support';
import type { DistributedVault } from './distributed-vault.ts';

/** As if an hour had passed since every key was made: the next pass of the sweep looks at all of them (ADR 2). */
export async function ageKeys({ databaseUrl }: Pick<DistributedVault, 'databaseUrl'>): Promise<void> {
  const pool = createTestPool(databaseUrl);
  const [first, last] = ['0', 'f'].map((digit) => digit.repeat(32));
  await pool
    .query('update housekeeping.key_sweep set after = $1, until = $2', [first, last])
    .finally(() => pool.end());
}
