import {
  ApplicationCreated,
  ApplicationDeleted,
  ApplicationExpired,
  ApplicationKeyRegenerated,
  ApplicationUpdated,
  type AccessRule,
  type NewDataOf,
} from '@token-vault/contracts';
import { describe, expect, it } from 'vitest';
import { fact } from '../../src/aggregates/decider.ts';
import { applicationDecider, type ApplicationCommand } from '../../src/applications/decider.ts';
import { later, now, specify } from '../aggregates/specification.ts';

const { given } = specify(applicationDecider);
const id = '00000000-0000-4000-8000-0000000000a1';
const keyHash = 'a'.repeat(64);
type Create = Extract<ApplicationCommand, { kind: 'create' }>;
const create = (changes: Partial<Create> = {}): Create => ({
  kind: 'create',
  id,
  name: 'Shop',
  type: 'private',
  keyHash,
  permissions: ['token:read'],
  rules: [],
  expiresAt: undefined,
  maker: 'operator',
  now,
  ...changes,
});
const data = {
  application_id: id,
  name: 'Shop',
  type: 'private',
  key_hash: keyHash,
  permissions: ['token:read'],
  rules: [],
} satisfies NewDataOf<'ApplicationCreated'>;
const created = fact(ApplicationCreated, data);
const expiring = fact(ApplicationCreated, { ...data, expires_at: later(1000).toISOString() });
const deleted = fact(ApplicationDeleted, { application_id: id });
const rule = (changes: Partial<AccessRule> = {}): AccessRule => ({
  description: undefined,
  priority: 1,
  container: '/pci/',
  conditions: undefined,
  transform: 'reveal',
  permissions: ['token:read'],
  ...changes,
});

describe('creating an application', () => {
  it('records the hash of its key, never the key', () => given().when(create()).then(created));
  it('keeps its expiry', () =>
    given()
      .when(create({ expiresAt: later(1000).toISOString() }))
      .then(expiring));
  it('is refused when it was made and has ended: the repeat of a request makes no second one under its id', () => {
    given(created, deleted).when(create()).thenRefused({ code: 'conflict' });
    given(created, fact(ApplicationExpired, { application_id: id }))
      .when(create())
      .thenRefused({ code: 'conflict' });
  });
  it('is refused with an expiry that has passed', () =>
    given()
      .when(create({ expiresAt: now.toISOString() }))
      .thenRefused({ code: 'validation_failed', errors: { expires_at: [expect.any(String)] } }));
  it('repeated, replaces the key that was never received', () =>
    given(created)
      .when(create({ keyHash: 'b'.repeat(64) }))
      .then(fact(ApplicationKeyRegenerated, { application_id: id, key_hash: 'b'.repeat(64) })));

  it.each<[string, Partial<Create>, string]>([
    ['a permission that its type may not hold', { permissions: ['token:read', 'log:read'] }, 'permissions.1'],
    [
      'more than public ones for a public key',
      { type: 'public', permissions: ['token:read'] },
      'permissions.0',
    ],
    ['token permissions for management', { type: 'management' }, 'permissions.0'],
    ['rules for management', { type: 'management', permissions: ['log:read'], rules: [rule()] }, 'rules'],
    ['a rule without container', { rules: [rule({ container: undefined })] }, 'rules.0.container'],
    [
      'a rule with conditions',
      { rules: [rule({ conditions: [{ attribute: 'id', operator: 'equals', value: 'x' }] })] },
      'rules.0.conditions',
    ],
    [
      'a rule that grants too much',
      { rules: [rule(), rule({ priority: 2, permissions: ['log:read'] })] },
      'rules.1.permissions.0',
    ],
  ])('is refused with %s', (_what, changes, field) =>
    given()
      .when(create(changes))
      .thenRefused({
        code: 'validation_failed',
        errors: expect.objectContaining({ [field]: expect.any(Array) as unknown }) as unknown,
      }),
  );
});

describe('a change of an application', () => {
  const maker = 'operator' as const;
  const update = {
    kind: 'update' as const,
    name: 'Till',
    permissions: [],
    rules: [rule()],
    maker,
    now,
  } satisfies ApplicationCommand;
  const regenerate = {
    kind: 'regenerate-key',
    keyId: '00000000-0000-4000-8000-0000000000b1',
    keyHash,
    maker,
    now,
  } as const;
  const remove = { kind: 'delete', now } as const;

  it('replaces name and grants', () =>
    given(created)
      .when(update)
      .then(
        fact(ApplicationUpdated, { application_id: id, name: 'Till', permissions: [], rules: [rule()] }),
      ));
  it('is refused permissions that its type does not allow', () =>
    given(created)
      .when({ ...update, permissions: ['application:create'] })
      .thenRefused({ code: 'validation_failed' }));
  it('replaces its key', () =>
    given(created)
      .when(regenerate)
      .then(
        fact(ApplicationKeyRegenerated, {
          application_id: id,
          key_hash: keyHash,
          key_id: '00000000-0000-4000-8000-0000000000b1',
          keys: [],
        }),
      ));
  it('deletes it', () => given(created).when(remove).then(deleted));

  it.each([update, regenerate, remove])(
    'finds no application that is absent, deleted or expired: $kind',
    (command) => {
      given().when(command).thenRefused({ code: 'not_found' });
      given(created, deleted).when(command).thenRefused({ code: 'not_found' });
      given(created, fact(ApplicationExpired, { application_id: id }))
        .when(command)
        .thenRefused({ code: 'not_found' });
      given(expiring)
        .when({ ...command, now: later(1000) })
        .thenRefused({ code: 'not_found' });
    },
  );
});

describe('the expiry of an application', () => {
  it('happens at its time and not before', () => {
    given(expiring)
      .when({ kind: 'expire', now: later(999) })
      .thenNothing();
    given(expiring)
      .when({ kind: 'expire', now: later(1000) })
      .then(fact(ApplicationExpired, { application_id: id }));
    given(created)
      .when({ kind: 'expire', now: later(1e12) })
      .thenNothing();
  });
});
