import type { Principal } from '@token-vault/access';
import {
  SessionAuthorized,
  SessionExpired,
  SessionOpened,
  type AccessRule,
  type Permission,
} from '@token-vault/contracts';
import { describe, expect, it } from 'vitest';
import { fact } from '../../src/aggregates/decider.ts';
import {
  maxSessionLifetimeMs,
  nonceLifetimeMs,
  sessionDecider,
  sessionLifetimeMs,
  type SessionCommand,
} from '../../src/sessions/decider.ts';
import { generateNonce, sessionIdOf } from '../../src/sessions/nonce.ts';
import { later, now, specify, tenantId } from '../aggregates/specification.ts';

const { given } = specify(sessionDecider);
const id = '00000000-0000-4000-8000-0000000000e1';
const publicId = '00000000-0000-4000-8000-0000000000a1';
const privateId = '00000000-0000-4000-8000-0000000000a2';
const keyHash = 'a'.repeat(64);
const nonceHash = 'b'.repeat(64);
const openerKeyHash = 'd'.repeat(64);
const authorizerKeyHash = 'e'.repeat(64);

const authorizer = (permissions: Permission[]): Principal => ({
  tenant: { id: tenantId, plan: 'standard', settings: {} },
  actor: { kind: 'application', id: privateId },
  applicationId: privateId,
  applicationType: 'private',
  permissions,
  rules: [],
});
type Authorize = Extract<SessionCommand, { kind: 'authorize' }>;
const authorize = (changes: Partial<Authorize> = {}): Authorize => ({
  kind: 'authorize',
  nonceHash,
  authorizer: authorizer(['token:read', 'token:create']),
  authorizerKeyHash,
  permissions: ['token:read'],
  rules: [],
  expiresAt: undefined,
  now,
  ...changes,
});
const rule: AccessRule = {
  description: undefined,
  priority: 1,
  container: undefined,
  conditions: [{ attribute: 'id', operator: 'equals', value: 'abc' }],
  transform: 'reveal',
  permissions: ['token:read'],
};
const nonceEnd = later(nonceLifetimeMs);
const openedBefore = {
  session_id: id,
  application_id: publicId,
  key_hash: keyHash,
  nonce_hash: nonceHash,
  expires_at: nonceEnd.toISOString(),
};
const signature = `m1.0.${'S'.repeat(22)}`;
/** As the decider makes it; signed as the log has it. */
const toOpen = fact(SessionOpened, { ...openedBefore, opener_key_hash: openerKeyHash });
const opened = fact(SessionOpened, { ...openedBefore, opener_key_hash: openerKeyHash, signature });
const authorized = (expiresAt: Date, rules: AccessRule[] = [], permissions: Permission[] = ['token:read']) =>
  fact(SessionAuthorized, {
    session_id: id,
    authorized_by: privateId,
    permissions,
    rules,
    expires_at: expiresAt.toISOString(),
    authorizer_key_hash: authorizerKeyHash,
  });
const hour = authorized(later(sessionLifetimeMs));
const expired = fact(SessionExpired, { session_id: id });

describe('opening a session', () => {
  const open = { kind: 'open', id, applicationId: publicId, keyHash, nonceHash, openerKeyHash } as const;
  it('records hashes of its key and nonce, and of the key by which it is opened', () =>
    given()
      .when({ ...open, expiresAt: nonceEnd.toISOString() })
      .then(toOpen));
  it('is refused where there is one', () =>
    given(opened)
      .when({ ...open, expiresAt: nonceEnd.toISOString() })
      .thenRefused({ code: 'conflict' }));
});

describe('authorizing a session', () => {
  it('makes it valid for an hour', () => given(opened).when(authorize()).then(hour));
  it('is possible until the last millisecond of the nonce', () =>
    given(opened)
      .when(authorize({ now: later(nonceLifetimeMs - 1) }))
      .then(authorized(later(nonceLifetimeMs - 1 + sessionLifetimeMs))));
  it('does not find an expired nonce', () =>
    given(opened)
      .when(authorize({ now: nonceEnd }))
      .thenRefused({ code: 'not_found' }));
  it('does not find an unknown session', () => given().when(authorize()).thenRefused({ code: 'not_found' }));
  it('does not find the session with another nonce', () =>
    given(opened)
      .when(authorize({ nonceHash: 'c'.repeat(64) }))
      .thenRefused({ code: 'not_found' }));
  it.each([
    ['the hash of the key that opened it', { signature }],
    ['a signature', { opener_key_hash: openerKeyHash }],
  ])('does not find a session of an older release, which lacks %s', (_, data) =>
    given(fact(SessionOpened, { ...openedBefore, ...data }))
      .when(authorize())
      .thenRefused({ code: 'not_found' }),
  );
  it('works once', () =>
    given(opened, hour).when(authorize()).thenRefused({ code: 'session_already_authorized' }));
  it('does not reveal to a request without the nonce that it was used', () =>
    given(opened, hour)
      .when(authorize({ nonceHash: 'c'.repeat(64) }))
      .thenRefused({ code: 'not_found' }));
  it('does not find one that has ended', () =>
    given(opened, expired).when(authorize()).thenRefused({ code: 'not_found' }));
  it('grants rules with conditions', () =>
    given(opened)
      .when(authorize({ permissions: [], rules: [rule] }))
      .then(authorized(later(sessionLifetimeMs), [rule], [])));

  it.each<[string, Partial<Authorize>, string]>([
    ['nothing', { permissions: [] }, 'permissions'],
    ['a permission the authorizer lacks', { permissions: ['token:delete'] }, 'permissions.0'],
    [
      'a permission no session may hold',
      { permissions: ['tenant:delete'], authorizer: authorizer(['tenant:delete']) },
      'permissions.0',
    ],
    [
      'a rule on a container',
      { permissions: [], rules: [{ ...rule, conditions: undefined, container: '/' }] },
      'rules.0.conditions',
    ],
    [
      'a rule beyond the authorizer',
      { permissions: [], rules: [{ ...rule, permissions: ['token:use'] }] },
      'rules.0.permissions.0',
    ],
  ])('is refused when it grants %s', (_what, changes, field) =>
    given(opened)
      .when(authorize(changes))
      .thenRefused({
        code: 'validation_failed',
        errors: expect.objectContaining({ [field]: [expect.any(String)] }) as unknown,
      }),
  );

  it.each<[string, Date, boolean]>([
    ['now', now, false],
    ['in a millisecond', later(1), true],
    ['in a day', later(maxSessionLifetimeMs), true],
    ['in more than a day', later(maxSessionLifetimeMs + 1), false],
  ])('may ask for an end %s: %o %s', (_when, end, isAllowed) => {
    const when = given(opened).when(authorize({ expiresAt: end.toISOString() }));
    if (isAllowed) when.then(authorized(end));
    else when.thenRefused({ code: 'validation_failed', errors: { expires_at: [expect.any(String)] } });
  });
});

describe('the expiry of a session', () => {
  it('ends one whose nonce was not used', () =>
    given(opened).when({ kind: 'expire', now: nonceEnd }).then(expired));
  it('does not change one before its end', () =>
    given(opened)
      .when({ kind: 'expire', now: later(nonceLifetimeMs - 1) })
      .thenNothing());
  it('does not change an authorized one after the end of its nonce', () =>
    given(opened, hour).when({ kind: 'expire', now: nonceEnd }).thenNothing());
  it('ends an authorized one at its end', () =>
    given(opened, hour)
      .when({ kind: 'expire', now: later(sessionLifetimeMs) })
      .then(expired));
  it('happens once', () => given(opened, expired).when({ kind: 'expire', now: nonceEnd }).thenNothing());
  it('does nothing for an unknown session', () => given().when({ kind: 'expire', now }).thenNothing());
});

describe('a nonce', () => {
  it('names its session and is different each time', () => {
    const nonce = generateNonce(id);
    expect(sessionIdOf(nonce)).toBe(id);
    expect(generateNonce(id)).not.toBe(nonce);
  });
  it.each(['', 'x', id, `${id}.`, `${'-'.repeat(36)}.${'a'.repeat(32)}`, `${id}.${'a'.repeat(33)}`])(
    'is not %j',
    (text) => expect(sessionIdOf(text)).toBeUndefined(),
  );
});
