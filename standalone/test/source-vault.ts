import { secret } from '@token-vault/contracts';
import { createCommandHandlers, createTenantCommands } from '@token-vault/command-service';
import { createKeyRing, environmentRootKey } from '@token-vault/crypto';
import { createExpressions, createInlineWorkers } from '@token-vault/expressions';
import { silentLogger } from '@token-vault/observability';
import { createAuditTrail, createRequestContext, systemClock, type Handlers } from '@token-vault/operations';
import { keyDurability, openEventStore, schema, type EventStoreChoice } from '@token-vault/processes';
import { migrate } from '@token-vault/processes/migrations';
import { createTestDatabase, createTestPool } from '@token-vault/test-support';
import { randomBytes } from 'node:crypto';

/** The command side of a vault in this process, with a database of its own. Its log is where `eventStore` says. */
export async function createSourceVault(eventStore: EventStoreChoice) {
  const rootKey = randomBytes(32).toString('base64');
  const database = await createTestDatabase();
  await migrate(database.url, schema);
  const pool = createTestPool(database.url);
  const data = { databaseUrl: database.url, eventStore };
  const store = await openEventStore(data, { storage: { requireSpace: () => undefined } });
  const keyRing = await createKeyRing({
    pool,
    rootKey: environmentRootKey(rootKey, 'VAULT_ROOT_KEY'),
    clock: systemClock,
    durability: keyDurability(data),
  });
  const audit = createAuditTrail(store);
  const expressions = createExpressions(createInlineWorkers());
  const dependencies = { store, keyRing, audit, expressions, clock: systemClock, logger: silentLogger };
  const handlers = createCommandHandlers(dependencies);
  return {
    rootKey,
    database,
    pool,
    store,
    keyRing,
    tenants: createTenantCommands(dependencies),
    makeReactor: (tenantId: string) => makeReactor(handlers, tenantId),
    async close() {
      await store.close();
      await pool.end();
      await database.drop();
    },
  };
}
export type SourceVault = Awaited<ReturnType<typeof createSourceVault>>;

/** The reactor has a configuration, and so a data key. */
async function makeReactor({ createReactor }: Handlers, tenantId: string): Promise<string> {
  const principal = {
    tenant: { id: tenantId, plan: 'enterprise' as const, settings: {} },
    actor: { kind: 'application' as const, id: 'tester' },
    applicationId: 'tester',
    applicationType: 'management' as const,
    permissions: ['reactor:create' as const],
    rules: [],
  };
  const context = createRequestContext({ principal, traceId: 'trace', now: systemClock.now() });
  const code = 'module.exports = async () => ({ raw: 1 })';
  const body = { name: 'Reactor', code, configuration: secret({ secret: 'value' }), application: undefined };
  const answer = await createReactor?.({ params: undefined, query: undefined, body }, context);
  return (answer?.body as { id: string }).id;
}
