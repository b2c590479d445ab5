import { AsyncLocalStorage } from 'node:async_hooks';
import { randomBytes } from 'node:crypto';
import {
  createCommandHandlers,
  createTenantCommands,
  createTokenReplay,
  housekeepingMigrations,
  startHousekeeping,
} from '@token-vault/command-service';
import { eventRegistry } from '@token-vault/contracts';
import { createKeyRing, environmentRootKey, keyRingMigrations, type KeyRing } from '@token-vault/crypto';
import { createExpressions, createInlineWorkers } from '@token-vault/expressions';
import type { EventStore } from '@token-vault/event-store';
import { createMemoryEventStore } from '@token-vault/event-store/memory';
import { createExecutor, type Executor } from '@token-vault/operations';
import { projections, projectorMigrations, startProjectors } from '@token-vault/projectors';
import { createQueryHandlers } from '@token-vault/query-service';
import {
  createApp,
  createAuditTrail,
  createAuthenticator,
  createEntityFinder,
  createIdempotentAnswers,
  createMissLimit,
  createProjectionProgress,
  finishApp,
  idempotencyMigrations,
  listen,
  silentLogger,
  type Authenticator,
} from '@token-vault/service-kit';
import {
  createTestDatabase,
  createTestPool,
  manualClock,
  type ManualClock,
  waitUntil,
} from '@token-vault/test-support';

/** What the vault does for one request: who waits for the answer can measure it. */
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
  /** Two tenants on the enterprise plan that have a management application and nothing else. */
  newPair(): Promise<readonly [string, string]>;
  /** Ends what is past its time, as housekeeping does. */
  sweep(): Promise<void>;
  close(): Promise<void>;
}

const working = new AsyncLocalStorage<Work>();

/** Counts the work that `ask` leads to. */
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

const countingKeys = (keyRing: KeyRing): KeyRing => ({
  ...keyRing,
  open(context, sealed) {
    note('opened');
    return keyRing.open(context, sealed);
  },
});

const countingStore = <Store extends EventStore>(store: Store): Store => ({
  ...store,
  append(...of: Parameters<EventStore['append']>) {
    note('appended');
    return store.append(...of);
  },
});

/** Made many at a time: they share round trips to the database. */
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

/** One vault with real callers, read models, keys and stored answers; only the log is in memory. Its clock stands still until it is moved. */
export async function openTwins(): Promise<Twins> {
  const { database, pool } = await openDatabase();
  const clock = manualClock();
  const rootKey = environmentRootKey(randomBytes(32).toString('base64'));
  const keyRing = countingKeys(await createKeyRing({ pool, rootKey, clock, durability: 'own' }));
  const store = countingStore(createMemoryEventStore({ registry: eventRegistry }));
  const connection = { connectionString: database.url, logger: silentLogger };
  const projectors = startProjectors({ store, connectionString: database.url });
  await waitUntil(async () => (await projectors.status()).length === projections.length, {
    what: 'all projections',
  });
  const progress = await createProjectionProgress(connection);
  const audit = createAuditTrail(store);
  const expressions = createExpressions(createInlineWorkers());
  const missLimit = createMissLimit();
  const common = { store, keyRing, audit, clock, missLimit, logger: silentLogger };
  // In one process nothing has to be confirmed: what is cached of callers is forgotten with each change.
  const watch = {
    requireMoving: async () => undefined,
    current: async <Found>(read: (generation: string) => Found | Promise<Found>) => read('of one process'),
  };
  const authenticator = createAuthenticator({ pool, store, keyRing, clock, watch });
  const dependencies = {
    handlers: {
      ...createCommandHandlers({ ...common, expressions }),
      ...createQueryHandlers({
        ...common,
        pool,
        expressions,
        waitForProjections: (position, timeoutMs, names) => progress.reach(position, timeoutMs, names),
      }),
    },
    ...{ audit, progress, watch, clock },
    revocations: { confirm: async () => 'as usual' as const },
    findEntity: createEntityFinder(pool),
    idempotency: createIdempotentAnswers({ pool, keyRing, clock }),
    tokenReplay: createTokenReplay({ store, keyRing, audit, expressions, clock }),
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
    newPair: createPairs(newTenant, 20),
    async sweep() {
      await housekeeping.runOnce();
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
