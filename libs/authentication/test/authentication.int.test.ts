import { setTimeout as delay } from 'node:timers/promises';
import {
  applicationStatement,
  sessionStatement,
  tenantStatement,
  type Permission,
  type Statement,
} from '@token-vault/contracts';
import type pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Position } from '@token-vault/event-store';
import { generateApiKey, hashApiKey } from '@token-vault/crypto';
import { createTestDatabase, createTestPool, manualClock, waitUntil } from '@token-vault/test-support';
import { createAuthenticator, listenForAccessChanges, type Authenticator } from '../src/index.ts';
import { silentLogger } from '@token-vault/observability';
import { watchReadModels } from '@token-vault/read-models';
import { execute, macOf, schema } from './tables.ts';

const tenantId = '11111111-1111-4111-8111-111111111111';
const applicationId = '22222222-2222-4222-8222-222222222222';
const key = generateApiKey('pvt');

/** Called by the watch. */
const leaseMs = 250;

const rules = [
  { priority: 2, transform: 'mask', permissions: [] },
  { priority: 1, transform: 'reveal', permissions: [] },
];

/** Signs and checks in place of a tenant's key. */
const hashes = {
  acceptsUnsigned: false,
  sign: macOf,
  isSigned: (statement: Statement, signature: string | null | undefined) =>
    signature === macOf(statement, Number(signature?.split('.')[1])),
};
/** The events of a stream in the log, by revision. */
let streams: Map<string, string[]>;
/** Runs before a stream is read. */
let beforeLogRead: () => Promise<void>;
const store = {
  async *readStream(stream: string, { from = 0 }: { from?: number } = {}) {
    await beforeLogRead();
    for (const type of (streams.get(stream) ?? []).slice(from)) yield { type, data: {} };
  },
};

const signedTenant = (plan = 'standard') =>
  macOf(tenantStatement({ plan, settings: {}, acceptsUnsigned: false }), 0);
const signedApplication = (expiresAt?: string, revision = 0) =>
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
const expireAt = (at: string) =>
  pool.query(`update rm_applications.application set expires_at_text = $1, signature = $2`, [
    at,
    signedApplication(at),
  ]);

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let pool: pg.Pool;
let authenticator: Authenticator;
let queries: number;
/** Runs before a query is sent, so that a test can act during a look-up. */
let beforeQuery: () => Promise<void>;
const clock = manualClock();
/** Incremented when a revocation is confirmed. */
let accessGeneration: string;
const watch = watchReadModels({
  progress: {
    read: async () => ({
      beganMs: performance.now(),
      checkpoints: new Map(
        ['applications', 'tenants'].map((name) => [name, { position: '1' as Position, status: 'live' }]),
      ),
      accessGeneration,
    }),
  },
});

beforeEach(async () => {
  database = await createTestDatabase({
    template: { name: 'authentication-5', fill: (url) => execute(url, schema) },
  });
  pool = createTestPool(database.url);
  await pool.query(`insert into rm_tenants.tenant values ($1, 'standard', '{}', false, false, $2)`, [
    tenantId,
    signedTenant(),
  ]);
  await pool.query(
    `insert into rm_applications.application values ($1, $2, 'private', $3, '["token:read"]', $4, null, $5)`,
    [applicationId, tenantId, hashApiKey(key), JSON.stringify(rules), signedApplication()],
  );
  streams = new Map();
  queries = 0;
  beforeQuery = async () => {};
  beforeLogRead = async () => {};
  clock.set('2030-01-01T00:00:00Z');
  const counting = {
    query: async (query: pg.QueryConfig) => {
      queries += 1;
      await beforeQuery();
      return pool.query(query);
    },
  };
  accessGeneration = '1';
  hashes.acceptsUnsigned = false;
  authenticator = createAuthenticator({
    pool: counting as never,
    store: store as never,
    keyRing: { hashes: async () => hashes as never },
    clock,
    watch,
  });
});

afterEach(async () => {
  await pool.end();
  await database.drop();
});

const kindOf = async (apiKey = key) => (await authenticator.authenticate(apiKey)).kind;

async function regenerate(): Promise<void> {
  await pool.query(
    `insert into rm_applications.retired_key select key_hash, tenant_id, id, 'regenerated' from rm_applications.application`,
  );
  await pool.query(`update rm_applications.application set key_hash = $1`, [hashApiKey('another')]);
}

describe('an application', () => {
  it('is found by its key, with its rules by priority', async () => {
    const found = await authenticator.authenticate(key);
    expect(found).toMatchObject({
      kind: 'authenticated',
      keyHash: hashApiKey(key),
      principal: {
        tenant: { id: tenantId, plan: 'standard' },
        actor: { kind: 'application', id: applicationId },
        permissions: ['token:read'],
        rules: [{ priority: 1 }, { priority: 2 }],
      },
    });
  });

  it('is looked up once a second for any number of calls', async () => {
    const all = await Promise.all(Array.from({ length: 100 }, () => kindOf()));
    expect(new Set(all)).toEqual(new Set(['authenticated']));
    clock.advance(999);
    await kindOf();
    expect(queries).toBe(1);
    clock.advance(1);
    await kindOf();
    expect(queries).toBe(2);
  });

  it('is not cached longer when the clock is set back', async () => {
    await kindOf();
    await regenerate();
    clock.advance(-3_600_000);
    expect(await kindOf()).toBe('retired');
  });

  it('loses its key within a second of the change, and at once after the notification', async () => {
    await kindOf();
    await regenerate();
    expect(await kindOf()).toBe('authenticated');
    authenticator.forget();
    const refused = await authenticator.authenticate(key);
    expect(refused).toEqual({
      kind: 'retired',
      key: { tenantId, applicationId, reason: 'regenerated' },
    });
  });

  it('loses its key at once when the revocation is confirmed, although no notification arrived', async () => {
    await kindOf();
    await regenerate();
    accessGeneration = '2';
    watch.forget();
    expect(await kindOf()).toBe('retired');
  });

  it('ends at the instant of its expiry, also while it is cached', async () => {
    await expireAt('2030-01-01T00:00:00.500Z');
    clock.advance(499);
    expect(await kindOf()).toBe('authenticated');
    clock.advance(1);
    expect(await authenticator.authenticate(key)).toMatchObject({
      kind: 'retired',
      key: { reason: 'expired' },
    });
  });

  it('ends with its tenant', async () => {
    await pool.query('update rm_tenants.tenant set is_deleted = true');
    expect(await kindOf()).toBe('unknown');
  });

  it('is not cached from a look-up that began before the notification of the change', async () => {
    beforeQuery = async () => {
      beforeQuery = async () => {};
      authenticator.forget();
    };
    expect(await kindOf()).toBe('authenticated');
    await kindOf();
    expect(queries).toBe(2);
  });

  it('is looked up again for a request after a change, while an older look-up still runs', async () => {
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    beforeQuery = () => {
      beforeQuery = async () => {};
      return held;
    };
    const older = kindOf();
    await regenerate();
    authenticator.forget();
    expect(await kindOf()).toBe('retired');
    release();
    await older;
    expect(await kindOf()).toBe('retired');
  });

  it('is unknown when the key never existed, and no query is made for a text that cannot be a key', async () => {
    expect(await kindOf(generateApiKey('pvt'))).toBe('unknown');
    const before = queries;
    for (const text of ['', 'short', 'x'.repeat(201), 'key with spaces', 'key_pvt_\u0000\u0000\u0000'])
      expect(await kindOf(text)).toBe('unknown');
    expect(queries).toBe(before);
  });
});

describe('a caller that is looked up while other callers are revoked', () => {
  const revokeAnother = () => {
    accessGeneration = String(Number(accessGeneration) + 1);
    watch.forget();
  };
  /** A revocation comes during each look-up, and checking the row takes longer than the lease. */
  function haveSlowChecks() {
    beforeQuery = async () => revokeAnother();
    beforeLogRead = async () => {
      await delay(leaseMs + 50);
      revokeAnother();
    };
  }

  it('is found although the check of its row takes longer than a revocation: an equal row is not checked again', async () => {
    haveSlowChecks();
    expect(await kindOf()).toBe('authenticated');
    expect(queries).toBe(2);
  });

  it('is checked again when its row has changed since', async () => {
    haveSlowChecks();
    const found = authenticator.authenticate(key);
    found.catch(() => undefined);
    await delay(leaseMs / 2);
    await pool.query(`update rm_applications.application set permissions = '["token:read","token:use"]'`);
    await expect(found).rejects.toMatchObject({ code: 'record_altered' });
  });
});

describe('a row that differs from the row that the vault wrote', () => {
  const altered = { code: 'record_altered', status: 500 };

  it.each([
    ['another key', `update rm_applications.application set key_hash = $1, id = gen_random_uuid()`],
    ['a copy of it for another key', `update rm_applications.application set key_hash = $1`],
    [
      'one that was never signed',
      `insert into rm_applications.application select gen_random_uuid(), tenant_id, type, $1, permissions, rules from rm_applications.application`,
    ],
  ])('opens nothing: %s', async (_what, statement) => {
    const thief = generateApiKey('pvt');
    await pool.query(statement, [hashApiKey(thief)]);
    await expect(authenticator.authenticate(thief)).rejects.toMatchObject(altered);
  });

  it.each([
    ['permissions', `update rm_applications.application set permissions = '["token:read","token:use"]'`],
    ['rules', `update rm_applications.application set rules = '[]'`],
    ['type', `update rm_applications.application set type = 'public'`],
    ['expiry', `update rm_applications.application set expires_at_text = '2031-01-01T00:00:00Z'`],
    ['plan', `update rm_tenants.tenant set plan = 'enterprise'`],
    ['settings', `update rm_tenants.tenant set settings = '{"a":"b"}'`],
    ['the mark of an upgrade', `update rm_tenants.tenant set accepts_unsigned = true`],
  ])('is refused with another %s', async (_what, statement) => {
    await pool.query(statement);
    await expect(authenticator.authenticate(key)).rejects.toMatchObject(altered);
  });

  it('is refused while its tenant is not signed, as at an upgrade, and is not reported as altered', async () => {
    hashes.acceptsUnsigned = true;
    await pool.query('update rm_tenants.tenant set signature = null');
    await expect(authenticator.authenticate(key)).rejects.toMatchObject({ code: 'unavailable' });
  });

  it('is refused when the signature of a tenant was removed after its upgrade', async () => {
    await pool.query('update rm_tenants.tenant set signature = null');
    await expect(authenticator.authenticate(key)).rejects.toMatchObject(altered);
  });
});

describe('an old row that was written back', () => {
  const application = `application-${tenantId}.${applicationId}`;

  it.each(['ApplicationDeleted', 'ApplicationExpired'])('is not accepted after %s', async (type) => {
    streams.set(application, ['ApplicationCreated', type]);
    expect(await kindOf()).toBe('unknown');
  });

  it('is not accepted when its rights were changed since', async () => {
    streams.set(application, ['ApplicationCreated', 'ApplicationUpdated']);
    await expect(authenticator.authenticate(key)).rejects.toMatchObject({ code: 'unavailable' });
  });

  it('is not accepted after its tenant was deleted', async () => {
    streams.set(`tenant-${tenantId}`, ['TenantCreated', 'TenantDeleted']);
    expect(await kindOf()).toBe('unknown');
  });

  it('is read again when the read model is only a moment behind the log', async () => {
    streams.set(application, ['ApplicationCreated', 'ApplicationUpdated']);
    const found = kindOf();
    await pool.query('update rm_applications.application set signature = $1', [
      signedApplication(undefined, 1),
    ]);
    expect(await found).toBe('authenticated');
  });
});

describe('a session', () => {
  const sessionKey = generateApiKey('ses');
  const sessionId = '33333333-3333-4333-8333-333333333333';
  const permissions: Permission[] = ['token:create'];
  const session = {
    id: sessionId,
    applicationId,
    authorizedBy: applicationId,
    keyHash: hashApiKey(sessionKey),
    permissions,
    rules: [],
    expiresAt: '2030-01-01T00:03:00Z',
    openerKeyHash: hashApiKey(key),
    authorizerKeyHash: hashApiKey(key),
  };
  const refusedFor = (reason: string) => ({
    kind: 'retired',
    key: { tenantId, applicationId, sessionId, reason },
  });
  const authorize = () => pool.query('update rm_applications.session set is_authorized = true');
  const sessionKind = () => kindOf(sessionKey);
  /** Writes the row again, signed as `stated`. */
  const state = (stated: typeof session) =>
    pool.query(
      'update rm_applications.session set signature = $1, opener_key_hash = $2, authorizer_key_hash = $3',
      [macOf(sessionStatement(stated), 1), stated.openerKeyHash, stated.authorizerKeyHash],
    );

  beforeEach(async () => {
    await pool.query(
      `insert into rm_applications.session values ($1, $2, $3, $4, '["token:create"]', '[]', $7, false, $3, $5, $6, $6)`,
      [
        session.id,
        tenantId,
        applicationId,
        session.keyHash,
        macOf(sessionStatement(session), 1),
        hashApiKey(key),
        session.expiresAt,
      ],
    );
    await pool.query(`insert into rm_applications.session_key values ($1, $2, $3, $4, 'not_authorized')`, [
      sessionId,
      hashApiKey(sessionKey),
      tenantId,
      applicationId,
    ]);
  });

  it('calls with its own rights once it is authorized, no longer than its application', async () => {
    expect(await authenticator.authenticate(sessionKey)).toEqual(refusedFor('not_authorized'));
    await authorize();
    expect(await authenticator.authenticate(sessionKey)).toMatchObject({
      principal: {
        actor: { kind: 'session' },
        applicationId,
        authorizedBy: applicationId,
        permissions: ['token:create'],
        authorizer: { permissions: ['token:read'] },
      },
    });
    await expireAt('2030-01-01T00:01:00Z');
    clock.advance(60_000);
    expect(await authenticator.authenticate(sessionKey)).toEqual(refusedFor('expired'));
    await pool.query(`update rm_applications.session_key set reason = 'ended'`);
    await pool.query('delete from rm_applications.session');
    expect(await authenticator.authenticate(sessionKey)).toEqual(refusedFor('ended'));
  });

  it.each(['openerKeyHash', 'authorizerKeyHash'])(
    'ends with a key that it was opened or authorized with: %s',
    async (of) => {
      await authorize();
      expect(await sessionKind()).toBe('authenticated');
      await state({ ...session, [of]: hashApiKey('a key that was regenerated') });
      authenticator.forget();
      expect(await sessionKind()).toBe('retired');
    },
  );

  it.each(['opener_key_hash', 'authorizer_key_hash'])(
    'is refused when its %s was changed in the table',
    async (column) => {
      await authorize();
      await state({ ...session, openerKeyHash: hashApiKey('old'), authorizerKeyHash: hashApiKey('old') });
      await pool.query(`update rm_applications.session set ${column} = $1`, [hashApiKey(key)]);
      await expect(authenticator.authenticate(sessionKey)).rejects.toMatchObject({ code: 'record_altered' });
    },
  );

  it('of an older release, which lacks the hashes of its keys, has ended', async () => {
    await authorize();
    await pool.query('update rm_applications.session set opener_key_hash = null, authorizer_key_hash = null');
    expect(await sessionKind()).toBe('retired');
  });
});

it('no caller is found by tables of an older release, until they are rebuilt', async () => {
  await pool.query('alter table rm_applications.session drop column opener_key_hash');
  await expect(authenticator.authenticate(key)).rejects.toMatchObject({ code: 'unavailable' });
});

describe('changes of access', () => {
  it('are received from any process, and after the connection was lost and made again', async () => {
    let changes = 0;
    const listening = await listenForAccessChanges({
      connectionString: database.url,
      logger: silentLogger,
      onChange: () => (changes += 1),
      retryMs: 10,
    });
    const heard = async (cause: () => Promise<unknown>) => {
      const before = changes;
      await cause();
      await waitUntil(() => changes > before, { what: 'a change' });
    };
    await heard(() => pool.query(`notify access_changed`));
    const cut = `select pg_terminate_backend(pid) from pg_stat_activity
                 where application_name = 'vault-access-changes' and datname = current_database()`;
    await heard(() => pool.query(cut));
    const isListening = async () => {
      const { rowCount } = await pool.query(
        `select from pg_stat_activity where application_name = 'vault-access-changes'
         and datname = current_database() and query = 'listen access_changed' and state = 'idle'`,
      );
      return rowCount === 1;
    };
    await waitUntil(isListening, { what: 'a new connection' });
    await heard(() => pool.query(`notify access_changed`));
    await listening.close();
    await listening.close();
  });
});
