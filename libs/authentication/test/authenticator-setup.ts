import { applicationStatement, tenantStatement, type Statement } from '@token-vault/contracts';
import type pg from 'pg';
import { afterEach, beforeEach } from 'vitest';
import type { Position } from '@token-vault/event-store';
import { generateApiKey, hashApiKey } from '@token-vault/crypto';
import { createTestDatabase, createTestPool, manualClock } from '@token-vault/test-support';
import { createAuthenticator, type Authenticator } from '../src/index.ts';
import { KnownRevocations, watchReadModels } from '@token-vault/read-models';
import { execute, macOf, schema } from './tables.ts';

export const tenantId = '11111111-1111-4111-8111-111111111111';
export const applicationId = '22222222-2222-4222-8222-222222222222';
export const key = generateApiKey('pvt');

const rules = [
  { priority: 2, transform: 'mask', permissions: [] },
  { priority: 1, transform: 'reveal', permissions: [] },
];

const signedTenant = (plan = 'standard') =>
  macOf(tenantStatement({ plan, settings: {}, acceptsUnsigned: false }), 0);
export const signedApplication = (expiresAt?: string, revision = 0) =>
  macOf(
    applicationStatement({
      id: applicationId,
      type: 'private',
      keyHash: hashApiKey(key),
      keyId: null,
      keys: [],
      permissions: ['token:read'],
      rules,
      expiresAt,
    }),
    revision,
  );

/** Signs and checks in place of a tenant's key. */
const makeHashes = () => ({
  acceptsUnsigned: false,
  sign: macOf,
  isSigned: (statement: Statement, signature: string | null | undefined) =>
    signature === macOf(statement, Number(signature?.split('.')[1])),
});

/** The state that a test sets and changes while it runs. */
const makeState = () => ({
  hashes: makeHashes(),
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

async function insertApplication(pool: pg.Pool): Promise<void> {
  await pool.query(`insert into rm_tenants.tenant values ($1, 'standard', '{}', false, false, $2)`, [
    tenantId,
    signedTenant(),
  ]);
  await pool.query(
    `insert into rm_applications.application values ($1, $2, 'private', $3, '["token:read"]', $4, null, $5)`,
    [applicationId, tenantId, hashApiKey(key), JSON.stringify(rules), signedApplication()],
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
    async regenerate(): Promise<void> {
      await pool.query(
        `insert into rm_applications.retired_key select key_hash, tenant_id, id, 'regenerated' from rm_applications.application`,
      );
      await pool.query(`update rm_applications.application set key_hash = $1`, [hashApiKey('another')]);
    },
  };
  beforeEach(async () => {
    database = await createTestDatabase({
      template: { name: 'authentication-5', fill: (url) => execute(url, schema) },
    });
    pool = createTestPool(database.url);
    await insertApplication(pool);
    Object.assign(setup, makeState());
    watch.forget();
    clock.set('2030-01-01T00:00:00Z');
    authenticator = createAuthenticator({
      pool: countingPool(setup) as never,
      store: storeOf(setup) as never,
      keyRing: { hashes: async () => setup.hashes as never },
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

const storeOf = (setup: State) => ({
  async *readStream(stream: string, { from = 0 }: { from?: number } = {}) {
    await setup.beforeLogRead();
    for (const type of (setup.streams.get(stream) ?? []).slice(from)) yield { type, data: {} };
  },
});
