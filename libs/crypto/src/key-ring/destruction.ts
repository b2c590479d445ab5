import { createBatcher } from '@token-vault/batching';
import type { Pool } from 'pg';
import type { Clock } from './clock.ts';
import type { TenantKeys } from './tenant-keys.ts';
import { inTransaction } from './transaction.ts';

/** A data key that was destroyed, or is due: what it was for, never what it was. */
export interface DestroyedKey {
  readonly keyId: string;
  readonly tenantId: string;
  readonly entity: string;
  readonly purpose: string;
  /** When it was made. */
  readonly createdAt: Date;
  readonly destroyAfter: Date | null;
}

export interface KeyDestruction {
  /** Destroys these keys of a tenant; absent ones are passed over. Gives what was destroyed by this call. */
  destroyKeys(tenantId: string, keyIds: readonly string[]): Promise<readonly DestroyedKey[]>;
  /** Destroys every key of an entity, whatever its purpose, e.g. of `token:<id>`. */
  destroyKeysOfEntity(tenantId: string, entity: string): Promise<readonly DestroyedKey[]>;
  /**
   * Destroys everything a tenant has. From the first commit nothing of it opens; the rows follow in portions. Repeat
   * after an interruption. The tenant id never gets keys again.
   * @returns how many data keys this call removed
   */
  destroyAllOfTenant(tenantId: string): Promise<number>;
  /** Keys whose time is over, oldest first. They open no longer, but are still there. */
  dueKeys(now: Date, limit: number): Promise<readonly DestroyedKey[]>;
  /** Destroys keys whose time is over. Any number of replicas may call it: each key is given to one of them. */
  destroyDue(now: Date, limit: number): Promise<readonly DestroyedKey[]>;
  /**
   * Makes the space of destroyed keys reusable now instead of when autovacuum comes. See docs/explanation/erasure.md
   * for what it does and does not remove. Not inside a transaction.
   * @param options `rewrite`: copy the table without them, which locks it for the time of a copy.
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

/** A destruction waits for its flush whatever the connection or the server is set to. */
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
      // The first release left wrapped keys in the planner's statistics; the migration deletes those rows.
      if (options.rewrite) await pool.query('vacuum full pg_catalog.pg_statistic');
    },
  };
}

/** Deletes by key id or by entity, many callers' targets in one statement and one flush. */
function createTargetDeletion(pool: Pool, by: Target['by']): (target: Target) => Promise<DestroyedKey[]> {
  const type = by === 'id' ? 'uuid' : 'text';
  // Not `=`, which another index than that of the ids could serve.
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
    // The same target twice in a statement would be counted for one caller only, which is right for the second too.
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

/** Which of these data keys, or of those of these entities, are there: nothing of what they sealed counts as erased. */
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

/** The tombstone keeps the id from being used again; without its tenant key no data key opens, on any replica. */
async function destroyTenantKeys(pool: Pool, tenantId: string, clock: Clock): Promise<void> {
  await inTransaction(pool, async (client) => {
    await client.query(`set local synchronous_commit = on`);
    await client.query(
      `insert into key_ring.destroyed_tenant (tenant_id, destroyed_at) values ($1, $2) on conflict do nothing`,
      [tenantId, clock.now()],
    );
    // First, because it waits for a rotation that adds a version just now; the next statement then sees that version.
    await client.query(`delete from key_ring.tenant_index_key where tenant_id = $1`, [tenantId]);
    // Locked in the order in which inserts lock them.
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
