import {
  applicationStatement,
  sessionStatement,
  tenantStatement,
  type Statement,
} from '@token-vault/contracts';
import { generateApiKey, hashApiKey } from '@token-vault/crypto';
import type { Position } from '@token-vault/event-store';
import { KnownRevocations, watchReadModels } from '@token-vault/read-models';
import { createTestDatabase, createTestPool, manualClock } from '@token-vault/test-support';
import type pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createAuthenticator, type Authenticator } from '../src/index.ts';
import { execute, macOf, schema, tenantId } from './tables.ts';
import { eventsOf } from './authenticator-setup.ts';

const applicationId = '22222222-2222-4222-8222-222222222222';
const key = generateApiKey('pvt');
const clock = manualClock();
/** Signs and checks in place of a tenant's key. */
const hashes = {
  acceptsUnsigned: false,
  isSigned: (statement: Statement, signature: string | null | undefined) =>
    signature === macOf(statement, Number(signature?.split('.')[1])),
};
const signedWith = (keys: readonly object[], revision = 1) => {
  const stated = {
    id: applicationId,
    name: 'Backend',
    type: 'private',
    keyHash: hashApiKey(key),
    keyId: null,
    keys,
  };
  const granted = { permissions: ['token:read'], rules: [], expiresAt: null };
  return macOf(applicationStatement({ ...stated, ...granted }), revision);
};
const checkpoint = { position: '1' as Position, status: 'live' };
const watch = watchReadModels({
  progress: {
    read: async () => ({
      beganMs: performance.now(),
      checkpoints: new Map(['applications', 'tenants'].map((name) => [name, checkpoint])),
      revocations: new KnownRevocations(1),
    }),
  },
});

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let pool: pg.Pool;
let authenticator: Authenticator;
/** The events of a stream in the log, by revision. */
let streams: Map<string, string[]>;

beforeEach(async () => {
  database = await createTestDatabase({
    template: { name: 'authentication-6', fill: (url) => execute(url, schema) },
  });
  pool = createTestPool(database.url);
  const tenant = macOf(tenantStatement({ plan: 'standard', settings: {}, acceptsUnsigned: false }), 0);
  await pool.query(`insert into rm_tenants.tenant values ($1, 'standard', '{}', false, false, $2)`, [
    tenantId,
    tenant,
  ]);
  await pool.query(
    `insert into rm_applications.application values ($1, $2, 'private', $3, '["token:read"]', '[]', null, $4)`,
    [applicationId, tenantId, hashApiKey(key), signedWith([], 0)],
  );
  streams = new Map();
  clock.set('2030-01-01T00:00:00Z');
  const store = {
    async *readStream(stream: string, { from = 0 }: { from?: number } = {}) {
      yield* eventsOf(stream, streams.get(stream) ?? []).slice(from);
    },
  };
  const keyRing = { hashes: async () => hashes as never };
  authenticator = createAuthenticator({ pool, store: store as never, keyRing, clock, watch });
});
afterEach(async () => {
  await pool.end();
  await database.drop();
});

const kindOf = async (apiKey = key) => (await authenticator.authenticate(apiKey)).kind;

describe('another key of an application', () => {
  const other = generateApiKey('pvt');
  const stored = { id: 'k', hash: hashApiKey(other), created_at: 'c', expires_at: '2030-01-01T00:01:00Z' };
  const plant = (hash: string) =>
    pool.query(`insert into rm_applications.application_key values ($1, $2, $3, 'expired')`, [
      hash,
      tenantId,
      applicationId,
    ]);
  const give = async (signature = signedWith([stored])) =>
    pool.query('update rm_applications.application set keys = $1, signature = $2', [
      JSON.stringify([stored]),
      signature,
    ]);

  it('is valid beside the main key until the instant of its expiry', async () => {
    await plant(stored.hash);
    await give();
    expect(await authenticator.authenticate(other)).toMatchObject({
      principal: { actor: { id: applicationId }, keyHash: stored.hash },
    });
    clock.advance(59_999);
    expect(await kindOf(other)).toBe('authenticated');
    clock.advance(1);
    expect(await authenticator.authenticate(other)).toMatchObject({
      kind: 'retired',
      key: { reason: 'expired' },
    });
    expect(await kindOf()).toBe('authenticated');
  });

  it('is not valid by a row of the table of keys alone', async () => {
    await plant(stored.hash);
    expect(await kindOf(other)).toBe('retired');
  });

  it('is not valid when the signature does not name it', async () => {
    await plant(stored.hash);
    await give(signedWith([], 0));
    await expect(authenticator.authenticate(other)).rejects.toMatchObject({ code: 'record_altered' });
    await give(signedWith([{ ...stored, expires_at: '2030-01-01T00:00:30Z' }]));
    await expect(authenticator.authenticate(other)).rejects.toMatchObject({ code: 'record_altered' });
  });

  it('is not valid by an old row that was written back after its deletion', async () => {
    await plant(stored.hash);
    await give();
    streams.set(`application-${tenantId}.${applicationId}`, ['', '', 'ApplicationKeyDeleted']);
    await expect(authenticator.authenticate(other)).rejects.toMatchObject({ code: 'unavailable' });
  });

  it('ends its sessions with it', async () => {
    const session = generateApiKey('ses');
    const stated = {
      id: '44444444-4444-4444-8444-444444444444',
      applicationId,
      authorizedBy: applicationId,
      keyHash: hashApiKey(session),
      permissions: [],
      rules: [],
      expiresAt: '2030-01-01T00:03:00Z',
      openerKeyHash: stored.hash,
      authorizerKeyHash: hashApiKey(key),
    };
    await pool.query(
      `insert into rm_applications.session values ($1, $2, $3, $4, '[]', '[]', $5, true, $3, $6, $7, $8)`,
      [
        stated.id,
        tenantId,
        applicationId,
        stated.keyHash,
        stated.expiresAt,
        macOf(sessionStatement(stated), 1),
        stated.openerKeyHash,
        stated.authorizerKeyHash,
      ],
    );
    await give();
    expect(await kindOf(session)).toBe('authenticated');
    clock.advance(60_000);
    expect(await kindOf(session)).toBe('retired');
  });
});
