import { createBatcher } from '@token-vault/batching';
import type { Pool } from 'pg';
import type { Clock } from './clock.ts';
import type { TenantKeys } from './tenant-keys.ts';
import { inTransaction } from './transaction.ts';

/** A data key that was destroyed or is due: its identity, never its bytes. */
export interface DestroyedKey {
  readonly keyId: string;
  readonly tenantId: string;
  readonly entity: string;
  readonly purpose: string;
  /** When the key was made. */
  readonly createdAt: Date;
  readonly destroyAfter: Date | null;
}

export interface KeyDestruction {
  /** Destroys these keys of a tenant; absent keys are skipped. Returns the keys that this call destroyed. */
  destroyKeys(tenantId: string, keyIds: readonly string[]): Promise<readonly DestroyedKey[]>;
  /** Destroys every key of an entity, for all purposes, e.g. of `token:<id>`. */
  destroyKeysOfEntity(tenantId: string, entity: string): Promise<readonly DestroyedKey[]>;
  /**
   * Destroys all keys of a tenant. After the first commit no value of the tenant opens; the rows are deleted in portions. Call it again
   * after an interruption. The tenant id never gets keys again.
   * @returns how many data keys this call removed
   */
  destroyAllOfTenant(tenantId: string): Promise<number>;
  /** Whether `destroyAllOfTenant` was called for the tenant: its keys are not just missing. */
  isDestroyed(tenantId: string): Promise<boolean>;
  /** Expired keys, oldest first. They open no value, but their rows still exist. */
  dueKeys(now: Date, limit: number): Promise<readonly DestroyedKey[]>;
  /** Destroys expired keys. Any number of replicas may call it: each key is returned to one of them only. */
  destroyDue(now: Date, limit: number): Promise<readonly DestroyedKey[]>;
  /**
   * Makes the space of destroyed keys reusable now instead of at the next autovacuum. docs/explanation/erasure.md says which copies it
   * removes and which it does not. Not inside a transaction.
   * @param options `rewrite`: copies the table without the destroyed keys; the table is locked during the copy.
   */
  vacuumDestroyed(options?: { readonly rewrite?: boolean }): Promise<void>;
}

interface KeyRow {
  readonly id: string;
  readonly tenant_id: string;
  readonly entity: string;
  readonly purpose: string;
  readonly created_at: Date;
  readonly destroy_after: Date | null;
}

const columns = ['id', 'tenant_id', 'entity', 'purpose', 'created_at', 'destroy_after'];
const described = columns.join(', ');
const describedKey = columns.map((column) => `d.${column}`).join(', ');

/** A destruction waits for its flush, whatever the settings of the connection or the server are. */
const durable = `durability as materialized (select set_config('synchronous_commit', 'on', true))`;

const tenantPortion = 5000;

type Target =
  | { readonly by: 'id'; readonly tenantId: string; readonly name: string }
  | { readonly by: 'entity'; readonly tenantId: string; readonly name: string };

export function createKeyDestruction(pool: Pool, tenantKeys: TenantKeys, clock: Clock): KeyDestruction {
  const byId = createTargetDeletion(pool, 'id');
  const byEntity = createTargetDeletion(pool, 'entity');

  return {
    async destroyKeys(tenantId, keyIds) {
      const destroyed = await Promise.all(keyIds.map((name) => byId({ by: 'id', tenantId, name })));
      return destroyed.flat();
    },

    destroyKeysOfEntity: (tenantId, entity) => byEntity({ by: 'entity', tenantId, name: entity }),

    async destroyAllOfTenant(tenantId) {
      await destroyTenantKeys(pool, tenantId, clock);
      tenantKeys.forget(tenantId);
      return destroyDataKeysOfTenant(pool, tenantId);
    },

    async isDestroyed(tenantId) {
      const { rows } = await pool.query(`select from key_ring.destroyed_tenant where tenant_id = $1`, [
        tenantId,
      ]);
      return rows.length > 0;
    },

    async dueKeys(now, limit) {
      const { rows } = await pool.query<KeyRow>(
        `select ${described} from key_ring.data_key where destroy_after <= $1 order by destroy_after limit $2`,
        [now, limit],
      );
      return rows.map(describe);
    },

    async destroyDue(now, limit) {
      const { rows } = await pool.query<KeyRow>(
        `with ${durable}, due as materialized (
           select id from key_ring.data_key where destroy_after <= $1
           order by destroy_after limit $2 for update skip locked
         )
         delete from key_ring.data_key d using due, durability where d.id = due.id returning ${describedKey}`,
        [now, limit],
      );
      return rows.map(describe);
    },

    async vacuumDestroyed(options = {}) {
      await pool.query(`vacuum (${options.rewrite ? 'full, ' : ''}analyze) key_ring.data_key`);
      // The first release left wrapped keys in the planner's statistics. The migration deletes those rows; this removes them from disk.
      if (options.rewrite) await pool.query('vacuum full pg_catalog.pg_statistic');
    },
  };
}

/** Deletes by key id or by entity. The targets of many callers share one statement and one flush. */
function createTargetDeletion(pool: Pool, by: Target['by']): (target: Target) => Promise<DestroyedKey[]> {
  const type = by === 'id' ? 'uuid' : 'text';
  // Not `=`, because an index other than the primary key could serve it.
  const condition =
    by === 'id'
      ? 'd.id = t.name and d.tenant_id is not distinct from t.tenant_id'
      : 'd.tenant_id = t.tenant_id and d.entity = t.name';
  const statement = `
with ${durable}, doomed as materialized (
  select d.id, t.ordinal
  from unnest($1::uuid[], $2::${type}[]) with ordinality as t (tenant_id, name, ordinal)
  join key_ring.data_key d on ${condition}
  order by d.id
  for update of d
)
delete from key_ring.data_key d using doomed, durability where d.id = doomed.id
returning doomed.ordinal::integer, ${describedKey}`;

  const batcher = createBatcher<Target, DestroyedKey[]>({
    maxItems: 500,
    // If two callers name the same target in one statement, only the first gets its keys. That is correct: the second caller destroyed no
    // key.
    run: async (targets) => {
      const { rows } = await pool.query<KeyRow & { ordinal: number }>({
        name: `key_ring_destroy_by_${by}`,
        text: statement,
        values: [targets.map((target) => target.tenantId), targets.map((target) => target.name)],
      });
      const destroyed: DestroyedKey[][] = targets.map(() => []);
      for (const row of rows) destroyed[row.ordinal - 1]?.push(describe(row));
      return destroyed;
    },
  });
  return (target) => batcher.add(target);
}

/** Which of these data keys, or of the keys of these entities, still exist. Values under an existing key do not count as erased. */
export async function remainingKeys(
  pool: Pool,
  tenantId: string,
  { keyIds, entities }: { readonly keyIds: readonly string[]; readonly entities: readonly string[] },
): Promise<string[]> {
  const { rows } = await pool.query<{ id: string }>(
    `select id from key_ring.data_key where tenant_id = $1 and (entity = any($2) or id = any($3::uuid[])) order by id`,
    [tenantId, entities, keyIds],
  );
  return rows.map((row) => row.id);
}

/** All tenants that have keys, or had some before they were destroyed. */
export async function tenantsOfKeyRing(pool: Pool): Promise<string[]> {
  const { rows } = await pool.query<{ id: string }>(
    `select tenant_id as id from key_ring.tenant_key union select tenant_id from key_ring.destroyed_tenant order by id`,
  );
  return rows.map((row) => row.id);
}

/** The tombstone prevents another use of the tenant id. Without its tenant key no data key opens, on any replica. */
async function destroyTenantKeys(pool: Pool, tenantId: string, clock: Clock): Promise<void> {
  await inTransaction(pool, async (client) => {
    await client.query(`set local synchronous_commit = on`);
    await client.query(
      `insert into key_ring.destroyed_tenant (tenant_id, destroyed_at) values ($1, $2) on conflict do nothing`,
      [tenantId, clock.now()],
    );
    // First, because this delete waits for a rotation that is adding a version; the next statement then sees that version.
    await client.query(`delete from key_ring.tenant_index_key where tenant_id = $1`, [tenantId]);
    // The same lock order as in the inserts.
    await client.query(
      `select from key_ring.tenant_key where tenant_id = $1 order by tenant_id, version for update`,
      [tenantId],
    );
    await client.query(`delete from key_ring.tenant_key where tenant_id = $1`, [tenantId]);
    await client.query(`select pg_notify('tenant_keys_destroyed', $1)`, [tenantId]);
  });
}

async function destroyDataKeysOfTenant(pool: Pool, tenantId: string): Promise<number> {
  let total = 0;
  for (;;) {
    const { rowCount } = await pool.query(
      `with ${durable}, doomed as materialized (
         select id from key_ring.data_key where tenant_id = $1
         order by entity, id limit $2 for update
       )
       delete from key_ring.data_key d using doomed, durability where d.id = doomed.id`,
      [tenantId, tenantPortion],
    );
    total += rowCount ?? 0;
    if ((rowCount ?? 0) === 0) return total;
  }
}

function describe(row: KeyRow): DestroyedKey {
  return {
    keyId: row.id,
    tenantId: row.tenant_id,
    entity: row.entity,
    purpose: row.purpose,
    createdAt: row.created_at,
    destroyAfter: row.destroy_after,
  };
}
