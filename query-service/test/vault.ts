import { randomBytes, randomUUID } from 'node:crypto';
import type { Pool } from 'pg';
import type { Principal } from '@token-vault/access';
import {
  eventRegistry,
  operations,
  ReactorCreated,
  ApplicationCreated,
  streams,
  TenantCreated,
  TokenCreated,
  TokenDeleted,
  type DataOf,
  type Json,
  type Operation,
  type OperationId,
  type VaultEventType,
} from '@token-vault/contracts';
import {
  createKeyRing,
  environmentRootKey,
  keyRingMigrations,
  seal,
  secret,
  type KeyRing,
} from '@token-vault/crypto';
import { EventStoreUnavailableError, type EventStore, type Position } from '@token-vault/event-store';
import { createMemoryEventStore } from '@token-vault/event-store/memory';
import { projectorMigrations, startProjectors, type Projectors } from '@token-vault/projectors';
import {
  createAuditTrail,
  createProjectionProgress,
  createRequestContext,
  silentLogger,
  type Answer,
  type ProjectionProgress,
} from '@token-vault/service-kit';
import {
  createTestDatabase,
  createTestPool,
  manualClock,
  waitUntil,
  type ManualClock,
} from '@token-vault/test-support';
import { createQueryHandlers } from '../src/index.ts';

const migrations = [...keyRingMigrations, ...projectorMigrations];

const template = {
  name: `query-service-${migrations.map(({ sql }) => sql.length).join('-')}`,
  fill: async (url: string): Promise<void> => {
    const pool = createTestPool(url);
    for (const { sql } of migrations) await pool.query(sql);
    await pool.end();
  },
};

export type TokenSeed = Partial<Omit<DataOf<'TokenCreated'>, 'data' | 'cvc'>> & {
  readonly data?: Json;
  readonly cvc?: string;
  readonly indexed?: readonly string[];
};

interface Definition {
  readonly type: VaultEventType;
  readonly version: number;
}

export interface Request {
  readonly params?: unknown;
  readonly query?: unknown;
  readonly body?: unknown;
}

/** The handlers on what the real projections make of real events, with real keys. Only the log is in memory. */
export interface Vault {
  readonly pool: Pool;
  readonly clock: ManualClock;
  readonly keyRing: KeyRing;
  readonly store: EventStore;
  /** A tenant with keys. */
  tenant(settings?: Record<string, string>): Promise<string>;
  /** Seals and records a token; gives its id. The read models have it after `settle`. */
  token(tenantId: string, seed?: TokenSeed): Promise<string>;
  deleteToken(tenantId: string, id: string): Promise<void>;
  application(tenantId: string, seed?: Partial<DataOf<'ApplicationCreated'>>): Promise<string>;
  reactor(
    tenantId: string,
    seed?: { name?: string; application_id?: string; configuration?: Record<string, string> },
  ): Promise<string>;
  append(tenantId: string, stream: string, definition: Definition, data: unknown): Promise<Position>;
  /** Waits until the read models have all there is. */
  settle(): Promise<void>;
  /** Stops what keeps the read models up to date. */
  stopProjecting(): Promise<void>;
  /** Calls an operation as `principal`, its input checked as the HTTP edge does, and gives the body of the answer. */
  call<Body = Record<string, unknown>>(
    id: OperationId,
    principal: Principal,
    request?: Request,
  ): Promise<Body>;
  /** Runs before each record of a read is made; while it rejects, none can be. Nothing by default. */
  beforeRecord(hook?: () => Promise<void>): void;
  end(): Promise<void>;
}

export const unavailable = new EventStoreUnavailableError('the disk is full');

export async function setUpVault(): Promise<Vault> {
  const database = await createTestDatabase({ template });
  const pool = createTestPool(database.url, { max: 10 });
  const clock = manualClock();
  const rootKey = environmentRootKey(randomBytes(32).toString('hex'));
  const keyRing = await createKeyRing({ pool, clock, rootKey, durability: 'own' });
  const store = createMemoryEventStore({ registry: eventRegistry });
  const projectors: Projectors = startProjectors({ store, connectionString: database.url });
  await waitUntil(async () => (await projectors.status()).length === 6, { what: 'six projections' });
  const progress: ProjectionProgress = await createProjectionProgress({
    connectionString: database.url,
    logger: silentLogger,
  });
  let beforeRecord: (() => Promise<void>) | undefined;
  const trail = createAuditTrail(store);
  const handlers = createQueryHandlers({
    pool,
    store,
    keyRing,
    audit: {
      async record(...entry) {
        await beforeRecord?.();
        return trail.record(...entry);
      },
    },
    waitForProjections: (position, timeoutMs, names) => progress.waitFor(position, timeoutMs, names),
  });

  async function append(
    tenantId: string,
    stream: string,
    definition: Definition,
    data: unknown,
  ): Promise<Position> {
    const context = createRequestContext({
      principal: principalOf(tenantId),
      traceId: 'seed',
      now: clock.now(),
    });
    return (await store.append(stream, [context.event(definition, data)], 'any')).position;
  }

  async function sealed(tenantId: string, entity: string, field: string, value: Json) {
    const { key, stored } = await keyRing.createDataKey({ tenantId, entity, purpose: field });
    await stored;
    return seal(key, { tenantId, entity, field }, secret(value));
  }

  let isProjecting = true;
  return {
    pool,
    clock,
    keyRing,
    store,
    append,

    async tenant(settings = {}) {
      const id = randomUUID();
      await keyRing.createTenantKeys(id);
      await append(id, streams.tenant(id), TenantCreated, {
        tenant_id: id,
        name: 'Acme',
        plan: 'standard',
        settings,
      });
      return id;
    },

    async token(tenantId, seed = {}) {
      const { data = 'plain text', cvc, indexed, ...content } = seed;
      const id = content.token_id ?? randomUUID();
      const entity = `token:${id}`;
      const hashes = await keyRing.hashes(tenantId);
      await append(tenantId, streams.token(tenantId, id), TokenCreated, {
        token_type: 'token',
        containers: ['/general/high/'],
        ...content,
        token_id: id,
        data: await sealed(tenantId, entity, 'data', data),
        ...(cvc !== undefined && { cvc: await sealed(tenantId, entity, 'cvc', cvc) }),
        ...(indexed && { index_hashes: indexed.map((value) => hashes.blindIndex('search_index', value)) }),
      });
      return id;
    },

    async deleteToken(tenantId, id) {
      await append(tenantId, streams.token(tenantId, id), TokenDeleted, {
        token_id: id,
        token_type: 'token',
        key_ids: [],
      });
    },

    async application(tenantId, seed = {}) {
      const id = seed.application_id ?? randomUUID();
      await append(tenantId, streams.application(tenantId, id), ApplicationCreated, {
        name: 'Backend',
        type: 'private',
        key_hash: randomBytes(32).toString('hex'),
        permissions: ['token:read'],
        rules: [],
        ...seed,
        application_id: id,
      });
      return id;
    },

    async reactor(tenantId, { name = 'Pay', configuration = {}, ...seed } = {}) {
      const id = randomUUID();
      await append(tenantId, streams.reactor(tenantId, id), ReactorCreated, {
        reactor_id: id,
        name,
        code: 'module.exports = async () => ({})',
        configuration: await sealed(tenantId, `reactor:${id}`, 'configuration', configuration),
        ...seed,
      });
      return id;
    },

    async settle() {
      if (!(await progress.waitFor(await store.head(), 20_000)))
        throw new Error('a projection does not move');
    },

    async stopProjecting() {
      if (isProjecting) await projectors.close();
      isProjecting = false;
    },

    async call<Body>(id: OperationId, principal: Principal, request: Request = {}) {
      const operation: Operation = operations[id];
      const input = {
        params: operation.params?.parse(request.params ?? {}),
        query: operation.query?.parse(request.query ?? {}),
        body: operation.body?.parse(request.body ?? {}),
      };
      const context = createRequestContext({ principal, traceId: 'test', now: clock.now() });
      const handler = handlers[id] as ((input: unknown, context: unknown) => Promise<Answer>) | undefined;
      if (!handler) throw new Error(`${id} has no handler`);
      const { body } = await handler(input, context);
      // What leaves is JSON, and is what the operations table says.
      const sent = JSON.parse(JSON.stringify(body)) as Body;
      operation.response?.parse(sent);
      return sent;
    },

    beforeRecord(hook) {
      beforeRecord = hook;
    },

    async end() {
      if (isProjecting) await projectors.close();
      await progress.close();
      await store.close();
      await pool.end();
      await database.drop();
    },
  };
}

/** A private application of the tenant that may read and search unless told otherwise. */
export function principalOf(tenantId: string, grants: Partial<Principal> = {}): Principal {
  const applicationId = grants.applicationId ?? randomUUID();
  return {
    tenant: { id: tenantId, plan: 'standard', settings: {} },
    actor: { kind: 'application', id: applicationId },
    applicationType: 'private',
    permissions: grants.rules ? [] : ['token:read', 'token:search'],
    rules: [],
    ...grants,
    applicationId,
  };
}

export const ruleOn = (
  container: string,
  transform: 'redact' | 'mask' | 'reveal',
  priority = 1,
): Principal['rules'][number] => ({
  description: undefined,
  conditions: undefined,
  priority,
  container,
  transform,
  permissions: ['token:read', 'token:search'],
});

export const managerOf = (tenantId: string): Principal =>
  principalOf(tenantId, {
    applicationType: 'management',
    permissions: ['application:read', 'log:read', 'reactor:read', 'tenant:read', 'report:read'],
  });

/** Every event of a type that the tenant's log of accesses holds, oldest first. */
export async function recorded<Type extends VaultEventType>(
  vault: Vault,
  tenantId: string,
  type: Type,
): Promise<DataOf<Type>[]> {
  const stream = streams.access(tenantId, vault.clock.now().toISOString().slice(0, 10));
  const found: DataOf<Type>[] = [];
  for await (const event of vault.store.readStream(stream)) {
    if (event.type === type) found.push(event.data as DataOf<Type>);
  }
  return found;
}
