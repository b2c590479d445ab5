import { randomBytes, randomUUID } from 'node:crypto';
import type { Principal } from '@token-vault/access';
import {
  createCommandHandlers,
  createTokenReplay,
  housekeepingMigrations,
} from '@token-vault/command-service';
import { eventRegistry, type AccessRule, type Json } from '@token-vault/contracts';
import { createKeyRing, environmentRootKey, keyRingMigrations } from '@token-vault/crypto';
import { createExpressions, createInlineWorkers } from '@token-vault/expressions';
import { createMemoryEventStore } from '@token-vault/event-store/memory';
import { createExecutor, type Executor } from '@token-vault/operations';
import { projections, projectorMigrations, startProjectors } from '@token-vault/projectors';
import { createQueryHandlers } from '@token-vault/query-service';
import {
  createAuditTrail,
  createIdempotentAnswers,
  createProjectionProgress,
  idempotencyMigrations,
  silentLogger,
} from '@token-vault/service-kit';
import {
  createTestDatabase,
  createTestPool,
  manualClock,
  type ManualClock,
  waitUntil,
} from '@token-vault/test-support';

/** Rights without a tenant. */
export interface Rights {
  readonly permissions: Principal['permissions'];
  readonly rules: readonly AccessRule[];
  /** Of a session: what its application may do. */
  readonly authorizer?: NonNullable<Principal['authorizer']>;
}

export interface Twins {
  readonly executor: Executor;
  readonly clock: ManualClock;
  /** Two tenants that have keys and nothing else. */
  newPair(): Promise<readonly [string, string]>;
  close(): Promise<void>;
}

/** One vault with real read models, keys and stored answers; only the log is in memory. Its clock stands still until it is moved. */
export async function openTwins(): Promise<Twins> {
  const database = await createTestDatabase();
  const pool = createTestPool(database.url, { max: 8 });
  const migrations = [...keyRingMigrations, ...projectorMigrations, ...housekeepingMigrations];
  for (const { sql } of [...migrations, ...idempotencyMigrations]) await pool.query(sql);
  const clock = manualClock();
  const rootKey = environmentRootKey(randomBytes(32).toString('base64'));
  const keyRing = await createKeyRing({ pool, rootKey, clock, durability: 'own' });
  const store = createMemoryEventStore({ registry: eventRegistry });
  const projectors = startProjectors({ store, connectionString: database.url });
  await waitUntil(async () => (await projectors.status()).length === projections.length, {
    what: 'all projections',
  });
  const connection = { connectionString: database.url, logger: silentLogger };
  const progress = await createProjectionProgress(connection);
  const audit = createAuditTrail(store);
  const expressions = createExpressions(createInlineWorkers());
  const executor = createExecutor({
    handlers: {
      ...createCommandHandlers({ store, keyRing, audit, clock, expressions, logger: silentLogger }),
      ...createQueryHandlers({ pool, store, keyRing, audit, expressions }),
    },
    audit,
    progress,
    watch: { requireMoving: async () => undefined },
    revocations: { confirm: async () => 'as usual' },
    clock,
    idempotency: createIdempotentAnswers({ pool, keyRing, clock }),
    tokenReplay: createTokenReplay({ store, keyRing, audit, expressions, clock }),
  });
  const newTenant = async (): Promise<string> => {
    const tenantId = randomUUID();
    await keyRing.createTenantKeys(tenantId);
    return tenantId;
  };
  return {
    executor,
    clock,
    newPair: async () => [await newTenant(), await newTenant()],
    async close() {
      await projectors.close();
      await progress.close();
      await store.close();
      await pool.end();
      await database.drop();
    },
  };
}

export const principalIn = (tenantId: string, applicationId: string, rights: Rights): Principal => ({
  tenant: { id: tenantId, plan: 'enterprise', settings: {} },
  actor: { kind: 'application', id: applicationId },
  applicationId,
  applicationType: 'private',
  ...rights,
});

const byChance = /^([1-9A-HJ-NP-Za-km-z]{43,44}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$/;

/**
 * What a tenant's caller was told, with what differs by chance or by the tenant's keys (UUIDs, fingerprints) replaced by the order in
 * which it was first told: what is equal stays equal.
 */
export function createLeveller(): (told: unknown) => Json {
  const names = new Map<string, string>();
  const level = (value: unknown): unknown => {
    if (typeof value !== 'string' || !byChance.test(value)) return value;
    const name = names.get(value) ?? `the value ${names.size}`;
    names.set(value, name);
    return name;
  };
  return (told) => JSON.parse(JSON.stringify(told, (_key, value: unknown) => level(value))) as Json;
}
