import { AsyncLocalStorage } from 'node:async_hooks';
import { randomBytes } from 'node:crypto';
import {
  createCommandHandlers,
  createConsoleUse,
  createTenantCommands,
  createTokenReplay,
  housekeepingMigrations,
  startHousekeeping,
  createSignatureCheck,
} from '@token-vault/command-service';
import { eventRegistry, TokensRead } from '@token-vault/contracts';
import { createKeyRing, environmentRootKey, keyRingMigrations, type KeyRing } from '@token-vault/crypto';
import { createExpressions, createInlineWorkers } from '@token-vault/expressions';
import type { EventStore } from '@token-vault/event-store';
import { createMemoryEventStore } from '@token-vault/event-store/memory';
import { createExecutor, createAuditTrail, type Executor } from '@token-vault/operations';
import { projections, projectorMigrations, startProjectors } from '@token-vault/projectors';
import { createQueryHandlers } from '@token-vault/query-service';
import { createApp, createMissLimit, finishApp, listen } from '@token-vault/http';
import { createAuthenticator, type Authenticator } from '@token-vault/authentication';
import {
  createEntityFinder,
  createProjectionProgress,
  KnownRevocations,
  type ReadModelWatch,
} from '@token-vault/read-models';
import { createIdempotentAnswers, idempotencyMigrations } from '@token-vault/idempotency';
import { silentLogger } from '@token-vault/observability';
import type pg from 'pg';
import {
  createTestDatabase,
  createTestPool,
  manualClock,
  waitUntil,
  type ManualClock,
} from '@token-vault/test-support';

/** The work of the vault for one request. A caller can measure it by the time of the answer. */
export interface Work {
  opened: number;
  appended: number;
}

export interface Twins {
  readonly executor: Executor;
  /** The same vault over HTTP. */
  readonly url: string;
  readonly authenticator: Authenticator;
  readonly clock: ManualClock;
  readonly pool: pg.Pool;
  /** Two tenants on the enterprise plan with only a management application. */
  newPair(): Promise<readonly [string, string]>;
  /** From now on readings are not recorded, so no answer with tokens leaves. */
  holdReadings(): HeldReadings;
  /** From now on this is done before a sealed value of an entity is opened. */
  beforeOpening(hook?: (entity: string) => Promise<void>): void;
  /** Ends entities that are past their time, as housekeeping does, and waits for the read models. */
  sweep(): Promise<void>;
  close(): Promise<void>;
}

const working = new AsyncLocalStorage<Work>();

/** Counts the work that `ask` causes. */
export async function counted<Result>(
  ask: () => Promise<Result>,
): Promise<{ readonly result: Result; readonly work: Work }> {
  const work: Work = { opened: 0, appended: 0 };
  return { result: await working.run(work, ask), work };
}

function note(what: keyof Work): void {
  const work = working.getStore();
  if (work) work[what] += 1;
}

type BeforeOpening = (entity: string) => Promise<void>;

const countingKeys = (keyRing: KeyRing, beforeOpening: BeforeOpening): KeyRing => ({
  ...keyRing,
  async open(context, sealed) {
    note('opened');
    await beforeOpening(context.entity);
    return keyRing.open(context, sealed);
  },
});

interface HeldReadings {
  /** Whether an answer waits for its record. */
  isHeld(): boolean;
  release(): void;
}

const countingStore = <Store extends EventStore>(
  store: Store,
  beforeAppend: (events: Parameters<EventStore['append']>[1]) => Promise<void>,
): Store => ({
  ...store,
  async append(...of: Parameters<EventStore['append']>) {
    note('appended');
    await beforeAppend(of[1]);
    return store.append(...of);
  },
});

/** Lets appends of readings wait while they are held. */
function createReadingGate() {
  let held: PromiseWithResolvers<void> | undefined;
  let waiting = 0;
  return {
    beforeAppend: async (events: readonly { readonly type: string }[]): Promise<void> => {
      if (!held || !events.some(({ type }) => type === TokensRead.type)) return;
      waiting += 1;
      await held.promise.finally(() => (waiting -= 1));
    },
    hold(): HeldReadings {
      const here = Promise.withResolvers<void>();
      held = here;
      return {
        isHeld: () => waiting > 0,
        release() {
          held = undefined;
          here.resolve();
        },
      };
    },
  };
}

/** Made many at a time, so that they share round trips to the database. */
function createPairs(
  create: () => Promise<string>,
  atOnce: number,
): () => Promise<readonly [string, string]> {
  const ready: Promise<string>[] = [];
  return async () => {
    if (ready.length < 2) for (let made = 0; made < atOnce; made += 1) ready.push(create());
    const [one, other] = await Promise.all(ready.splice(0, 2));
    if (one === undefined || other === undefined) throw new Error('no tenants');
    return [one, other];
  };
}

async function openDatabase() {
  const database = await createTestDatabase();
  const pool = createTestPool(database.url, { max: 8 });
  const migrations = [...keyRingMigrations, ...projectorMigrations, ...housekeepingMigrations];
  for (const { sql } of [...migrations, ...idempotencyMigrations]) await pool.query(sql);
  return { database, pool };
}

/**
 * One vault with real callers, read models, keys and stored answers. Only the log is in memory. Its clock stands
 * still until a test moves it.
 */
export async function openTwins(): Promise<Twins> {
  const { database, pool } = await openDatabase();
  const clock = manualClock();
  const rootKey = environmentRootKey(randomBytes(32).toString('base64'));
  let beforeOpening: BeforeOpening | undefined;
  const keyRing = countingKeys(
    await createKeyRing({ pool, rootKey, clock, durability: 'own' }),
    async (entity) => beforeOpening?.(entity),
  );
  const readings = createReadingGate();
  const store = countingStore(createMemoryEventStore({ registry: eventRegistry }), readings.beforeAppend);
  const connection = { connectionString: database.url, logger: silentLogger };
  const projectors = startProjectors({ store, connectionString: database.url });
  await waitUntil(async () => (await projectors.status()).length === projections.length, {
    what: 'all projections',
  });
  const progress = await createProjectionProgress(connection);
  const audit = createAuditTrail(store);
  const expressions = createExpressions(createInlineWorkers());
  const missLimit = createMissLimit({ nowMs: () => clock.now().getTime() });
  const common = { store, keyRing, audit, clock, missLimit, logger: silentLogger };
  // One process needs no confirmation: each change clears the cache of callers.
  const noRevocations = new KnownRevocations(0);
  const watch: Pick<ReadModelWatch, 'requireMoving' | 'current'> = {
    requireMoving: async () => undefined,
    current: async (read) => (await read(noRevocations)).found,
  };
  const onConsoleUse = createConsoleUse({ store, keyRing, clock });
  const authenticator = createAuthenticator({ pool, store, keyRing, clock, watch, onConsoleUse });
  const dependencies = {
    handlers: {
      ...createCommandHandlers({ ...common, expressions }),
      ...createQueryHandlers({
        ...common,
        pool,
        expressions,
        signatureCheck: () => createSignatureCheck({ store, keyRing }),
        waitForProjections: (position, timeoutMs, names) => progress.reach(position, timeoutMs, names),
      }),
    },
    ...{ audit, progress, watch, clock },
    revocations: { confirm: async () => 'as usual' as const },
    storage: { requireSpace: () => undefined },
    findEntity: createEntityFinder(pool),
    idempotency: createIdempotentAnswers({ pool, keyRing, clock }),
    tokenReplay: createTokenReplay({
      store,
      keyRing,
      audit,
      expressions,
      clock,
      // The twins run no code of reactors.
      findActor: async () => undefined,
    }),
  };
  const app = createApp({ ...dependencies, authenticator, logger: silentLogger });
  finishApp(app, silentLogger);
  const server = await listen(app, { host: '127.0.0.1', port: 0 });
  const housekeeping = startHousekeeping({ ...common, ...connection, pool, intervalMs: 2 ** 31 - 1 });
  const tenants = createTenantCommands(common);
  const newTenant = async () => (await tenants.create({ name: 'twin', plan: 'enterprise' })).tenantId;
  return {
    executor: createExecutor({ ...dependencies, forgetCallers: () => authenticator.forget() }),
    url: `http://127.0.0.1:${server.port}`,
    authenticator,
    clock,
    pool,
    newPair: createPairs(newTenant, 20),
    holdReadings: () => readings.hold(),
    beforeOpening: (hook) => void (beforeOpening = hook),
    async sweep() {
      await housekeeping.runOnce();
      // Else one twin would still be known when the other is not.
      if (!(await progress.waitFor(await store.head(), 20_000))) throw new Error('a read model stands still');
    },
    async close() {
      await server.stop(1000);
      await housekeeping.close();
      await projectors.close();
      await progress.close();
      await store.close();
      await pool.end();
      await database.drop();
    },
  };
}
