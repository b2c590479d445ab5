import type { Pool, PoolClient } from 'pg';
import { WrongRootKeyError } from '../errors.ts';
import type { RootKeyProvider } from '../root-keys/port.ts';
import type { Clock } from './clock.ts';
import { keyBinding } from './key-binding.ts';
import { addRootKey, type RootKeySet } from './root-key-set.ts';
import { withRotationLock } from './rotation-lock.ts';
import { inTransaction } from './transaction.ts';

interface TenantKeyRow {
  readonly tenant_id: string;
  readonly version: number;
  readonly root_key_id: string;
  readonly wrapped: Buffer;
}

const portion = 100;

/**
 * Wraps every tenant key by another root key and retires the earlier root keys. Data keys and data do not change. Online and resumable:
 * call it again after an interruption. While it runs, every replica must hold both root keys (`otherRootKeys`) or find the new one
 * (`findRootKey`). Afterwards the old root key is refused at start.
 * @returns how many tenant keys this call wrapped
 * @throws WrongRootKeyError when `to` was retired before, or a root key in use is not held.
 * @throws RotationInProgressError
 */
export function rotateRoot(
  pool: Pool,
  rootKeys: RootKeySet,
  clock: Clock,
  to: RootKeyProvider,
): Promise<number> {
  return withRotationLock(pool, 'the root key', async () => {
    rootKeys.hold(to);
    await inTransaction(pool, (client) => takeIntoUse(client, to, clock));
    let wrapped = await rewrapAll(pool, rootKeys, to);
    await inTransaction(pool, async (client) => {
      // A transaction that creates a tenant under an old root key locks that key's row until it commits. After this lock there is none.
      await client.query(
        `select from key_ring.root_key where root_key_id <> $1 and retired_at is null order by root_key_id for update`,
        [to.id],
      );
      wrapped += await rewrapAll(client, rootKeys, to);
      await client.query(
        `update key_ring.root_key set retired_at = $2 where root_key_id <> $1 and retired_at is null`,
        [to.id, clock.now()],
      );
    });
    return wrapped;
  });
}

async function takeIntoUse(client: PoolClient, to: RootKeyProvider, clock: Clock): Promise<void> {
  await addRootKey(client, to, clock);
  const { rows } = await client.query<{ retired: boolean }>(
    `select retired_at is not null as retired from key_ring.root_key where root_key_id = $1`,
    [to.id],
  );
  if (rows[0]?.retired) throw new WrongRootKeyError(`root key ${to.id} was retired: rotate to a new one`);
}

async function rewrapAll(
  database: Pool | PoolClient,
  rootKeys: RootKeySet,
  to: RootKeyProvider,
): Promise<number> {
  let total = 0;
  for (;;) {
    const { rows } = await database.query<TenantKeyRow>(
      `select tenant_id, version, root_key_id, wrapped from key_ring.tenant_key
       where root_key_id <> $1 order by tenant_id, version limit $2`,
      [to.id, portion],
    );
    for (const row of rows) {
      total += await rewrap(database, await rootKeys.get(row.root_key_id), to, row);
    }
    if (rows.length === 0) return total;
  }
}

async function rewrap(
  database: Pool | PoolClient,
  from: RootKeyProvider,
  to: RootKeyProvider,
  row: TenantKeyRow,
): Promise<number> {
  const { tenant_id: tenantId, version, root_key_id: fromId } = row;
  const bytes = await from.unwrap(row.wrapped, keyBinding.tenantKey(tenantId, version, fromId));
  const wrapped = await to.wrap(bytes, keyBinding.tenantKey(tenantId, version, to.id));
  bytes.fill(0);
  // No row is updated when the tenant was destroyed meanwhile: its keys must not be restored.
  const { rowCount } = await database.query(
    `update key_ring.tenant_key set wrapped = $4, root_key_id = $5
     where tenant_id = $1 and version = $2 and root_key_id = $3`,
    [tenantId, version, fromId, wrapped, to.id],
  );
  return rowCount ?? 0;
}
