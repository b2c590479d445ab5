import { randomUUID } from 'node:crypto';
import { applicationStatement, tenantStatement, type Statement } from '@token-vault/contracts';
import type pg from 'pg';
import { afterEach, beforeEach } from 'vitest';
import type { Position } from '@token-vault/event-store';
import { generateApiKey, hashApiKey } from '@token-vault/crypto';
import { createTestDatabase, createTestPool, manualClock } from '@token-vault/test-support';
import { createAuthenticator, type Authenticator } from '../src/index.ts';
import { KnownRevocations, watchReadModels } from '@token-vault/read-models';
import { execute, macOf, schema, tenantId } from './tables.ts';

export { tenantId };
export const applicationId = '22222222-2222-4222-8222-222222222222';
export const key = generateApiKey('pvt');

const rules = [
  { priority: 2, transform: 'mask', permissions: [] },
  { priority: 1, transform: 'reveal', permissions: [] },
];

interface Application {
  readonly tenant: string;
  readonly id: string;
  readonly key: string;
}
const own: Application = { tenant: tenantId, id: applicationId, key };

const signed = ({ tenant, id, key: ofIt }: Application, expiresAt?: string, revision = 0) => {
  const keys = { keyHash: hashApiKey(ofIt), keyId: null, keys: [] };
  const grants = { permissions: ['token:read'], rules, expiresAt };
  return macOf(
    applicationStatement({ id, name: 'Backend', type: 'private', ...keys, ...grants }),
    revision,
    tenant,
  );
};
export const signedApplication = (expiresAt?: string, revision = 0) => signed(own, expiresAt, revision);

/** Checks in place of a tenant's key. */
const signatures = (tenant: string) => ({
  isSigned: (statement: Statement, signature: string | null | undefined) =>
    signature === macOf(statement, Number(signature?.split('.')[1]), tenant),
});

/** The state that a test sets and changes while it runs. */
const makeState = () => ({
  hashes: { acceptsUnsigned: false },
  /** The events of a stream in the log, by revision. */
  streams: new Map<string, string[]>(),
  /** Runs before a stream is read. */
  beforeLogRead: async (): Promise<void> => {},
  /** Runs before a query is sent, so that a test can act during a look-up. */
  beforeQuery: async (): Promise<void> => {},
  queries: 0,
  /** Those that are confirmed. */
  revocations: new KnownRevocations(1),
});

async function insertTenant(pool: pg.Pool, tenant: string): Promise<void> {
  const statement = tenantStatement({ plan: 'standard', settings: {}, acceptsUnsigned: false });
  await pool.query(`insert into rm_tenants.tenant values ($1, 'standard', '{}', false, false, $2)`, [
    tenant,
    macOf(statement, 0, tenant),
  ]);
}

async function insertApplication(pool: pg.Pool, application: Application): Promise<void> {
  const { tenant, id } = application;
  await pool.query(
    `insert into rm_applications.application values ($1, $2, 'private', $3, '["token:read"]', $4, null, $5)`,
    [id, tenant, hashApiKey(application.key), JSON.stringify(rules), signed(application)],
  );
}

/** An authenticator of a fresh database with one application and its tenant, for each test. */
export function useAuthenticator() {
  const clock = manualClock();
  let database: Awaited<ReturnType<typeof createTestDatabase>>;
  let pool: pg.Pool;
  let authenticator: Authenticator;
  const watch = watchReadModels({
    progress: {
      read: async () => ({
        beganMs: performance.now(),
        checkpoints: new Map(
          ['applications', 'tenants'].map((name) => [name, { position: '1' as Position, status: 'live' }]),
        ),
        revocations: setup.revocations,
      }),
    },
  });
  const setup = {
    ...makeState(),
    clock,
    get database() {
      return database;
    },
    get pool() {
      return pool;
    },
    get authenticator() {
      return authenticator;
    },
    /** Confirms a revocation of this stream. */
    revoke(stream: string): void {
      const generation = setup.revocations.generation + 1;
      setup.revocations = setup.revocations.upTo(generation, [[generation, stream]]);
      watch.forget();
    },
    kindOf: async (apiKey = key) => (await authenticator.authenticate(apiKey)).kind,
    expireAt: (at: string) =>
      pool.query(`update rm_applications.application set expires_at_text = $1, signature = $2`, [
        at,
        signedApplication(at),
      ]),
    /** Another application, as the vault wrote it; of a new tenant unless `tenant` names one. */
    async addApplication(tenant = randomUUID()): Promise<Application> {
      const added = { tenant, id: randomUUID(), key: generateApiKey('pvt') };
      if (tenant !== tenantId) await insertTenant(pool, tenant);
      await insertApplication(pool, added);
      return added;
    },
    async regenerate(): Promise<void> {
      await pool.query(
        `insert into rm_applications.retired_key select key_hash, tenant_id, id, 'regenerated' from rm_applications.application`,
      );
      await pool.query(`update rm_applications.application set key_hash = $1`, [hashApiKey('another')]);
    },
  };
  beforeEach(async () => {
    database = await createTestDatabase({
      template: { name: 'authentication-6', fill: (url) => execute(url, schema) },
    });
    pool = createTestPool(database.url);
    await insertTenant(pool, tenantId);
    await insertApplication(pool, own);
    Object.assign(setup, makeState());
    watch.forget();
    clock.set('2030-01-01T00:00:00Z');
    authenticator = createAuthenticator({
      pool: countingPool(setup) as never,
      store: storeOf(setup) as never,
      keyRing: { hashes: async (tenant) => ({ ...setup.hashes, ...signatures(tenant) }) as never },
      clock,
      watch,
    });
  });
  afterEach(async () => {
    await pool.end();
    await database.drop();
  });
  return setup;
}

type State = ReturnType<typeof makeState>;

const countingPool = (setup: State & { readonly pool: pg.Pool }) => ({
  query: async (query: pg.QueryConfig) => {
    setup.queries += 1;
    await setup.beforeQuery();
    return setup.pool.query(query);
  },
});

/** The events of these types of the stream's entity. */
export const eventsOf = (stream: string, types: readonly string[]) => {
  const [tenant_id = '', id] = stream.slice(stream.indexOf('-') + 1).split('.');
  const data = { tenant_id, application_id: id, session_id: id };
  return types.map((type, revision) => ({ type, revision, data, metadata: { tenant_id } }));
};

const storeOf = (setup: State) => ({
  async *readStream(stream: string, { from = 0 }: { from?: number } = {}) {
    await setup.beforeLogRead();
    yield* eventsOf(stream, setup.streams.get(stream) ?? []).slice(from);
  },
});
