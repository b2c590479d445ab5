import { randomBytes } from 'node:crypto';
import type { Pool } from 'pg';
import { authenticationMigrations } from '@token-vault/authentication';
import type { Principal } from '@token-vault/access';
import { createExpressions, createInlineWorkers, type Expressions } from '@token-vault/expressions';
import {
  eventRegistry,
  operations,
  streams,
  type DataOf,
  type Json,
  type Operation,
  type OperationId,
  type VaultEventType,
} from '@token-vault/contracts';
import { createKeyRing, environmentRootKey, keyRingMigrations, type KeyRing } from '@token-vault/crypto';
import { EventStoreUnavailableError, type EventStore } from '@token-vault/event-store';
import { createMemoryEventStore } from '@token-vault/event-store/memory';
import { projections, projectorMigrations, startProjectors, type Projectors } from '@token-vault/projectors';
import { createAuditTrail, createRequestContext, type Answer, type Handlers } from '@token-vault/operations';
import { createProjectionProgress, type ProjectionProgress } from '@token-vault/read-models';
import { silentLogger } from '@token-vault/observability';
import {
  createTestDatabase,
  createTestPool,
  manualClock,
  waitUntil,
  type ManualClock,
} from '@token-vault/test-support';
import { asOlderRelease } from '@token-vault/crypto/older-release';
import { createMissLimit } from '@token-vault/http';
import { createQueryHandlers } from '../src/index.ts';
import { createSeeds, type Seeds } from './seeds.ts';

export { managerOf, principalOf, ruleOn } from './principals.ts';
export type { TokenSeed } from './seeds.ts';

const migrations = [...keyRingMigrations, ...projectorMigrations, ...authenticationMigrations];

const template = {
  name: `query-service-${migrations.map(({ sql }) => sql.length).join('-')}`,
  fill: async (url: string): Promise<void> => {
    const pool = createTestPool(url);
    for (const { sql } of migrations) await pool.query(sql);
    await pool.end();
  },
};

export interface Request {
  readonly params?: unknown;
  readonly query?: unknown;
  readonly body?: unknown;
}

/** The query handlers on real projections of real events, with real keys. Only the log is in memory. */
export interface Vault extends Seeds {
  readonly pool: Pool;
  readonly clock: ManualClock;
  readonly keyRing: KeyRing;
  /** The tenant of each altered record that was counted. */
  readonly altered: readonly string[];
  readonly store: EventStore;
  /** Waits until the read models have applied the whole log. */
  settle(): Promise<void>;
  /** Sets the keys of a tenant to the state that a release before signatures left. */
  age(tenantId: string): Promise<void>;
  /** Stops the projectors. */
  stopProjecting(): Promise<void>;
  /** Calls an operation as `principal`, with the input checks of the HTTP edge, and gives the body of the answer. */
  call<Body = Record<string, unknown>>(
    id: OperationId,
    principal: Principal,
    request?: Request,
  ): Promise<Body>;
  /** As `call`, and gives the whole answer, with the tokens that it declares to show. */
  answerOf(id: OperationId, principal: Principal, request?: Request): Promise<Answer>;
  /** Runs before each record of a read. While the hook rejects, no record can be made. No hook by default. */
  beforeRecord(hook?: () => Promise<void>): void;
  end(): Promise<void>;
}

export const unavailable = new EventStoreUnavailableError('the disk is full');

export async function setUpVault({
  expressions = createExpressions(createInlineWorkers()),
}: { readonly expressions?: Expressions } = {}): Promise<Vault> {
  const database = await createTestDatabase({ template });
  const pool = createTestPool(database.url, { max: 10 });
  const clock = manualClock();
  const rootKey = environmentRootKey(randomBytes(32).toString('hex'));
  const altered: string[] = [];
  const onAltered = (_kind: string, tenantId: string) => void altered.push(tenantId);
  const keyRing = await createKeyRing({ pool, clock, rootKey, durability: 'own', onAltered });
  const store = createMemoryEventStore({ registry: eventRegistry });
  const projectors: Projectors = startProjectors({ store, connectionString: database.url });
  await waitUntil(async () => (await projectors.status()).length === projections.length, {
    what: 'all projections',
  });
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
    expressions,
    audit: {
      ...trail,
      async record(...entry) {
        await beforeRecord?.();
        return trail.record(...entry);
      },
      async recordAll(...entries) {
        await beforeRecord?.();
        return trail.recordAll(...entries);
      },
    },
    // The signatures are checked by the command service.
    signatureCheck: () => () => Promise.resolve([]),
    missLimit: createMissLimit({ nowMs: () => clock.now().getTime() }),
    waitForProjections: (position, timeoutMs, names) => progress.reach(position, timeoutMs, names),
  });

  let isProjecting = true;
  return {
    pool,
    clock,
    age: (tenantId) => asOlderRelease({ pool, rootKey, keyRing }, tenantId),
    keyRing,
    altered,
    store,
    ...createSeeds(store, keyRing, clock),
    async settle() {
      if (!(await progress.waitFor(await store.head(), 20_000)))
        throw new Error('a projection does not move');
    },
    async stopProjecting() {
      if (isProjecting) await projectors.close();
      isProjecting = false;
    },

    ...callsOf(handlers, clock),

    beforeRecord: (hook) => void (beforeRecord = hook),

    async end() {
      if (isProjecting) await projectors.close();
      await progress.close();
      await store.close();
      await pool.end();
      await database.drop();
    },
  };
}

const callsOf = (handlers: Handlers, clock: ManualClock): Pick<Vault, 'call' | 'answerOf'> => ({
  async call<Body>(id: OperationId, principal: Principal, request?: Request) {
    return (await callHandler(handlers, clock, id, principal, request)).body as Body;
  },
  answerOf: (id, principal, request) => callHandler(handlers, clock, id, principal, request),
});

/**
 * Like the HTTP edge: the input is parsed by the operations table, and the JSON of the answer must match the table.
 */
async function callHandler(
  handlers: Handlers,
  clock: ManualClock,
  id: OperationId,
  principal: Principal,
  request: Request = {},
): Promise<Answer> {
  const operation: Operation = operations[id];
  const input = {
    params: operation.params?.parse(request.params ?? {}),
    query: operation.query?.parse(request.query ?? {}),
    body: operation.body?.parse(request.body ?? {}),
  };
  const context = createRequestContext({ principal, traceId: 'test', now: clock.now(), request: id });
  const handler = handlers[id] as ((input: unknown, context: unknown) => Promise<Answer>) | undefined;
  if (!handler) throw new Error(`${id} has no handler`);
  const made = await handler(input, context);
  // As the executor does.
  if (made.pending && !made.pending.answer()) await made.pending.record(context);
  const answer = made.pending?.answer() ?? made;
  const sent = JSON.parse(JSON.stringify(answer.body)) as Json;
  operation.response?.parse(sent);
  return { ...answer, body: sent };
}

/** The events of a type in the tenant's log of accesses, oldest first. */
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
