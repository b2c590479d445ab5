import { sessionStatement, streams } from '@token-vault/contracts';
import { beforeEach, describe, expect, it } from 'vitest';
import { hashApiKey } from '@token-vault/crypto';
import { insertSession, session, sessionKey } from './session-rows.ts';
import { macOf } from './tables.ts';
import { applicationId, key, tenantId, useAuthenticator } from './authenticator-setup.ts';

const setup = useAuthenticator();
const { clock } = setup;

describe('a session', () => {
  const refusedFor = (reason: string) => ({
    kind: 'retired',
    key: { tenantId, applicationId, sessionId: session.id, reason },
  });
  const authorize = () => setup.pool.query('update rm_applications.session set is_authorized = true');
  const sessionKind = () => setup.kindOf(sessionKey);
  /** Writes the row again, signed as `stated`. */
  const state = (stated: typeof session) =>
    setup.pool.query(
      'update rm_applications.session set signature = $1, opener_key_hash = $2, authorizer_key_hash = $3',
      [macOf(sessionStatement(stated), 1), stated.openerKeyHash, stated.authorizerKeyHash],
    );

  beforeEach(async () => {
    await insertSession(setup.pool);
    await setup.pool.query(
      `insert into rm_applications.session_key values ($1, $2, $3, $4, 'not_authorized')`,
      [session.id, session.keyHash, tenantId, applicationId],
    );
  });

  it('calls with its own rights once it is authorized, no longer than its application', async () => {
    expect(await setup.authenticator.authenticate(sessionKey)).toEqual(refusedFor('not_authorized'));
    await authorize();
    expect(await setup.authenticator.authenticate(sessionKey)).toMatchObject({
      principal: {
        actor: { kind: 'session' },
        applicationId,
        authorizedBy: applicationId,
        permissions: ['token:create'],
        authorizer: { permissions: ['token:read'] },
      },
    });
    await setup.expireAt('2030-01-01T00:01:00Z');
    clock.advance(60_000);
    expect(await setup.authenticator.authenticate(sessionKey)).toEqual(refusedFor('expired'));
    await setup.pool.query(`update rm_applications.session_key set reason = 'ended'`);
    await setup.pool.query('delete from rm_applications.session');
    expect(await setup.authenticator.authenticate(sessionKey)).toEqual(refusedFor('ended'));
  });

  it('is looked up again when a revocation of its application or its tenant was confirmed, and only then', async () => {
    await authorize();
    await sessionKind();
    const queriesAfter = async (stream: string) => {
      const before = setup.queries;
      setup.revoke(stream);
      await sessionKind();
      return setup.queries - before;
    };
    expect(await queriesAfter(streams.application(tenantId, session.id))).toBe(0);
    expect(await queriesAfter(streams.application(tenantId, applicationId))).toBeGreaterThan(0);
    expect(await queriesAfter(streams.tenant(tenantId))).toBeGreaterThan(0);
  });

  it.each(['openerKeyHash', 'authorizerKeyHash'])(
    'ends with a key that it was opened or authorized with: %s',
    async (of) => {
      await authorize();
      expect(await sessionKind()).toBe('authenticated');
      await state({ ...session, [of]: hashApiKey('a key that was regenerated') });
      setup.authenticator.forget();
      expect(await sessionKind()).toBe('retired');
    },
  );

  it.each(['opener_key_hash', 'authorizer_key_hash'])(
    'is refused when its %s was changed in the table',
    async (column) => {
      await authorize();
      await state({ ...session, openerKeyHash: hashApiKey('old'), authorizerKeyHash: hashApiKey('old') });
      await setup.pool.query(`update rm_applications.session set ${column} = $1`, [hashApiKey(key)]);
      await expect(setup.authenticator.authenticate(sessionKey)).rejects.toMatchObject({
        code: 'record_altered',
      });
    },
  );

  it('of an older release, which lacks the hashes of its keys, has ended', async () => {
    await authorize();
    await setup.pool.query(
      'update rm_applications.session set opener_key_hash = null, authorizer_key_hash = null',
    );
    expect(await sessionKind()).toBe('retired');
  });
});
