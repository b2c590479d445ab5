import { createHmac } from 'node:crypto';
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
import {
  createAuthenticator,
  listenForAccessChanges,
  silentLogger,
  watchReadModels,
  type Authenticator,
} from '../src/index.ts';

const tenantId = '11111111-1111-4111-8111-111111111111';
const applicationId = '22222222-2222-4222-8222-222222222222';
const key = generateApiKey('pvt');

/** The columns that the authenticator reads, with the triggers the projections give them. */
const schema = `
create schema rm_applications; create schema rm_tenants;
create table rm_applications.application (id uuid primary key, tenant_id uuid, type text, key_hash text unique,
  permissions jsonb, rules jsonb, expires_at_text text, signature text);
create table rm_applications.session (id uuid primary key, tenant_id uuid, application_id uuid, key_hash text unique,
  permissions jsonb, rules jsonb, expires_at_text text, is_authorized boolean, authorized_by uuid, signature text);
create table rm_applications.retired_key (key_hash text primary key, tenant_id uuid, application_id uuid, reason text);
create table rm_applications.session_key (session_id uuid primary key, key_hash text unique, tenant_id uuid,
  application_id uuid, reason text);
create table rm_tenants.tenant (id uuid primary key, plan text, settings jsonb, is_deleted boolean,
  accepts_unsigned boolean, signature text);
`;

const rules = [
  { priority: 2, transform: 'mask', permissions: [] },
  { priority: 1, transform: 'reveal', permissions: [] },
];

const macOf = (statement: Statement, revision: number): string =>
  `m1.${revision}.${createHmac('sha256', 'k')
    .update(JSON.stringify([statement, revision]))
    .digest('base64url')
    .slice(0, 22)}`;
/** What signs and checks in place of a tenant's key. */
const hashes = {
  acceptsUnsigned: false,
  sign: macOf,
  isSigned: (statement: Statement, signature: string | null | undefined) =>
    signature === macOf(statement, Number(signature?.split('.')[1])),
};
/** Events that the log has of a stream, by revision. */
let streams: Map<string, string[]>;
const store = {
  async *readStream(stream: string, { from = 0 }: { from?: number } = {}) {
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
/** Runs before a query is sent: lets a test do something while a look-up is under way. */
let beforeQuery: () => Promise<void>;
const clock = manualClock();
/** Raised when a revocation is confirmed. */
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
    template: { name: 'authentication-3', fill: (url) => execute(url, schema) },
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

async function execute(url: string, sql: string): Promise<void> {
  const own = createTestPool(url);
  await own.query(sql);
  await own.end();
}

const kindOf = async (apiKey = key) => (await authenticator.authenticate(apiKey)).kind;

async function regenerate(): Promise<void> {
  await pool.query(
    `insert into rm_applications.retired_key select key_hash, tenant_id, id, 'regenerated' from rm_applications.application`,
  );
  await pool.query(`update rm_applications.application set key_hash = $1`, [hashApiKey('another')]);
}

describe('an application', () => {
  it('is made out by its key, its rules by priority', async () => {
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

  it('is looked up once a second, however many call', async () => {
    const all = await Promise.all(Array.from({ length: 100 }, () => kindOf()));
    expect(new Set(all)).toEqual(new Set(['authenticated']));
    clock.advance(999);
    await kindOf();
    expect(queries).toBe(1);
    clock.advance(1);
    await kindOf();
    expect(queries).toBe(2);
  });

  it('is not remembered longer when the clock is set back', async () => {
    await kindOf();
    await regenerate();
    clock.advance(-3_600_000);
    expect(await kindOf()).toBe('retired');
  });

  it('loses its key within a second of the change, and at once when that is heard', async () => {
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

  it('loses its key at once when the revocation is confirmed, although nothing was heard', async () => {
    await kindOf();
    await regenerate();
    accessGeneration = '2';
    watch.forget();
    expect(await kindOf()).toBe('retired');
  });

  it('ends at the instant it expires, also while it is remembered', async () => {
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

  it('is not remembered from a look-up that began before the change was heard', async () => {
    beforeQuery = async () => {
      beforeQuery = async () => {};
      authenticator.forget();
    };
    expect(await kindOf()).toBe('authenticated');
    await kindOf();
    expect(queries).toBe(2);
  });

  it('is looked up anew by who calls after a change, while an older look-up still runs', async () => {
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

  it('is unknown when nobody had the key, and no query is made of what cannot be one', async () => {
    expect(await kindOf(generateApiKey('pvt'))).toBe('unknown');
    const before = queries;
    for (const text of ['', 'short', 'x'.repeat(201), 'key with spaces', 'key_pvt_\u0000\u0000\u0000'])
      expect(await kindOf(text)).toBe('unknown');
    expect(queries).toBe(before);
  });
});

describe('a row that is not as the vault wrote it', () => {
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

  it('is refused while its tenant is not signed, as at an upgrade, and nothing is said to be altered', async () => {
    hashes.acceptsUnsigned = true;
    await pool.query('update rm_tenants.tenant set signature = null');
    await expect(authenticator.authenticate(key)).rejects.toMatchObject({ code: 'unavailable' });
  });

  it('is refused when the signature of a tenant that is past its upgrade was taken away', async () => {
    await pool.query('update rm_tenants.tenant set signature = null');
    await expect(authenticator.authenticate(key)).rejects.toMatchObject(altered);
  });
});

describe('an old row that was written back', () => {
  const application = `application-${tenantId}.${applicationId}`;

  it.each(['ApplicationDeleted', 'ApplicationExpired'])('is not believed after %s', async (type) => {
    streams.set(application, ['ApplicationCreated', type]);
    expect(await kindOf()).toBe('unknown');
  });

  it('is not believed when its rights were changed since', async () => {
    streams.set(application, ['ApplicationCreated', 'ApplicationUpdated']);
    await expect(authenticator.authenticate(key)).rejects.toMatchObject({ code: 'unavailable' });
  });

  it('is not believed after its tenant was deleted', async () => {
    streams.set(`tenant-${tenantId}`, ['TenantCreated', 'TenantDeleted']);
    expect(await kindOf()).toBe('unknown');
  });

  it('is waited for when it is only a moment behind the log', async () => {
    streams.set(application, ['ApplicationCreated', 'ApplicationUpdated']);
    const found = kindOf();
    await pool.query('update rm_applications.application set signature = $1', [
      signedApplication(undefined, 1),
    ]);
    expect(await found).toBe('authenticated');
  });
});

describe('a session', () => {
  it('calls with its own rights once it is authorized, no longer than its application', async () => {
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
    };
    await pool.query(
      `insert into rm_applications.session values ($1, $2, $3, $4, '["token:create"]', '[]', '2030-01-01T00:03:00Z', false, $3, $5)`,
      [session.id, tenantId, applicationId, session.keyHash, macOf(sessionStatement(session), 1)],
    );
    await pool.query(`insert into rm_applications.session_key values ($1, $2, $3, $4, 'not_authorized')`, [
      sessionId,
      hashApiKey(sessionKey),
      tenantId,
      applicationId,
    ]);
    const refusedFor = (reason: string) => ({
      kind: 'retired',
      key: { tenantId, applicationId, sessionId, reason },
    });
    expect(await authenticator.authenticate(sessionKey)).toEqual(refusedFor('not_authorized'));
    await pool.query('update rm_applications.session set is_authorized = true');
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
});

describe('changes of access', () => {
  it('are heard from any process, and after the connection was lost and made again', async () => {
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
