import type { AccessRule, Permission } from '@token-vault/contracts';
import { describe, expect, it } from 'vitest';
import {
  can,
  checkGrants,
  checkSessionGrants,
  decideTokenAccess,
  tokenVisibility,
  type Principal,
} from '../src/index.ts';

const rule = (overrides: Partial<AccessRule>): AccessRule => ({
  description: undefined,
  priority: 1,
  container: undefined,
  conditions: undefined,
  transform: 'mask',
  permissions: ['token:read'],
  ...overrides,
});
const principal = (permissions: Permission[], rules: AccessRule[] = []): Principal => ({
  tenant: { id: 't', plan: 'standard', settings: {} },
  actor: { kind: 'application', id: 'a' },
  applicationId: 'a',
  applicationType: 'private',
  permissions,
  rules,
});
const card = { id: 'card-1', containers: ['/pci/high/'] };

describe('access to a token', () => {
  it.each([
    ['no permission and no rule', principal([]), { isGranted: false }],
    ['a plain permission', principal(['token:read']), { isGranted: true, transform: 'mask' }],
    ['another permission only', principal(['token:delete']), { isGranted: false }],
    [
      'a rule on the container',
      principal([], [rule({ container: '/pci/high/', transform: 'reveal' })]),
      { isGranted: true, transform: 'reveal' },
    ],
    [
      'a rule on the parent container',
      principal([], [rule({ container: '/pci/', transform: 'reveal' })]),
      { isGranted: true, transform: 'reveal' },
    ],
    [
      'a rule on everything',
      principal([], [rule({ container: '/', transform: 'redact' })]),
      { isGranted: true, transform: 'redact' },
    ],
    [
      'a rule on a child container',
      principal([], [rule({ container: '/pci/high/eu/' })]),
      { isGranted: false },
    ],
    [
      'a rule on a container whose name merely begins alike',
      principal([], [rule({ container: '/pci/hi/' })]),
      { isGranted: false },
    ],
    [
      'a rule on the container in other case',
      principal([], [rule({ container: '/PCI/High/' })]),
      { isGranted: true, transform: 'mask' },
    ],
    [
      'a rule that grants something else',
      principal([], [rule({ container: '/', permissions: ['token:use'] })]),
      { isGranted: false },
    ],
    [
      'a rule over a plain permission',
      principal(['token:read'], [rule({ container: '/pci/', transform: 'redact' })]),
      { isGranted: true, transform: 'redact' },
    ],
    [
      'a rule elsewhere beside a plain permission',
      principal(['token:read'], [rule({ container: '/bank/', transform: 'reveal' })]),
      { isGranted: true, transform: 'mask' },
    ],
    [
      'two rules, the first by priority deciding',
      principal(
        [],
        [
          rule({ container: '/', transform: 'redact' }),
          rule({ priority: 2, container: '/pci/', transform: 'reveal' }),
        ],
      ),
      { isGranted: true, transform: 'redact' },
    ],
    [
      'conditions that all hold',
      principal(
        [],
        [
          rule({
            conditions: [
              { attribute: 'id', operator: 'equals', value: 'card-1' },
              { attribute: 'container', operator: 'starts_with', value: '/PCI/' },
            ],
          }),
        ],
      ),
      { isGranted: true, transform: 'mask' },
    ],
    [
      'conditions of which one fails',
      principal(
        [],
        [
          rule({
            conditions: [
              { attribute: 'id', operator: 'starts_with', value: 'card' },
              { attribute: 'container', operator: 'equals', value: '/pci/' },
            ],
          }),
        ],
      ),
      { isGranted: false },
    ],
    [
      'an id in other case',
      principal([], [rule({ conditions: [{ attribute: 'id', operator: 'equals', value: 'CARD-1' }] })]),
      { isGranted: false },
    ],
    ['neither container nor conditions', principal([], [rule({})]), { isGranted: false }],
  ])('with %s', (_, caller, expected) => {
    expect(decideTokenAccess(caller, 'token:read', card)).toEqual(expected);
  });

  it('reveals to a reactor that may use tokens', () => {
    expect(decideTokenAccess(principal(['token:use']), 'token:use', card)).toEqual({
      isGranted: true,
      transform: 'reveal',
    });
  });
});

describe('a permission', () => {
  it('can come from a rule', () => {
    expect(can(principal([], [rule({ container: '/pci/' })]), 'token:read')).toBe(true);
    expect(can(principal([], [rule({ container: '/pci/' })]), 'token:delete')).toBe(false);
  });
});

describe('the lists of a caller', () => {
  it.each([
    ['everything by a plain permission', principal(['token:read']), { kind: 'all' }],
    ['everything by a rule on /', principal([], [rule({ container: '/' })]), { kind: 'all' }],
    ['nothing without a grant', principal(['token:delete']), { kind: 'none' }],
    [
      'containers by rules',
      principal([], [rule({ container: '/PCI/' })]),
      { kind: 'any-of', clauses: [{ kind: 'container', prefix: '/pci/' }] },
    ],
  ])('is %s', (_, caller, expected) => {
    expect(tokenVisibility(caller, 'token:read')).toEqual(expected);
  });
});

describe('grants of an application', () => {
  it.each([
    ['a permission of its type', 'private', ['token:read'], [], []],
    [
      'a management permission for a private application',
      'private',
      ['application:read'],
      [],
      ['permissions.0'],
    ],
    ['a token permission for a management application', 'management', ['token:read'], [], ['permissions.0']],
    ['reading for a public application', 'public', ['token:create', 'token:read'], [], ['permissions.1']],
    ['rules for a management application', 'management', ['log:read'], [rule({ container: '/' })], ['rules']],
    ['a rule without a container', 'private', [], [rule({})], ['rules.0.container']],
    [
      'a rule with conditions',
      'private',
      [],
      [rule({ container: '/', conditions: [{ attribute: 'id', operator: 'equals', value: 'x' }] })],
      ['rules.0.conditions'],
    ],
    [
      'a rule that grants more than the type may hold',
      'public',
      [],
      [rule({ container: '/' })],
      ['rules.0.permissions.0'],
    ],
    [
      'a rule that grants no token permission',
      'private',
      [],
      [rule({ container: '/', permissions: ['log:read'] })],
      ['rules.0.permissions', 'rules.0.permissions.0'],
    ],
  ] as const)('%s', (_, type, permissions, rules, fields) => {
    expect(Object.keys(checkGrants(type, { permissions, rules })).sort()).toEqual([...fields].sort());
  });
});

describe('grants of a session', () => {
  it('are a subset of those of the authorizing application', () => {
    const caller = principal(['token:read']);
    const conditions = [{ attribute: 'id', operator: 'equals', value: 'x' } as const];
    expect(
      checkSessionGrants(caller, { permissions: ['token:read'], rules: [rule({ conditions })] }),
    ).toEqual({});
    expect(Object.keys(checkSessionGrants(caller, { permissions: ['token:use'], rules: [] }))).toEqual([
      'permissions.0',
    ]);
    expect(
      Object.keys(checkSessionGrants(caller, { permissions: [], rules: [rule({ container: '/' })] })),
    ).toEqual(['rules.0.conditions', 'rules.0.container']);
  });
});

describe('a session', () => {
  const opened = (
    own: AccessRule[],
    authorizer: { permissions: Permission[]; rules: AccessRule[] },
  ): Principal => ({
    ...principal([], own),
    authorizer,
  });
  const everything = [{ attribute: 'container', operator: 'starts_with', value: '/' } as const];
  const revealing = [rule({ conditions: everything, transform: 'reveal' })];

  it('sees no more than its authorizer', () => {
    const session = opened(revealing, { permissions: ['token:read'], rules: [] });
    expect(decideTokenAccess(session, 'token:read', card)).toEqual({ isGranted: true, transform: 'mask' });
  });

  it('sees no more than it was granted', () => {
    const session = opened([rule({ conditions: everything, transform: 'redact' })], {
      permissions: [],
      rules: [rule({ container: '/', transform: 'reveal' })],
    });
    expect(decideTokenAccess(session, 'token:read', card)).toEqual({ isGranted: true, transform: 'redact' });
  });

  it('reaches no more containers than its authorizer', () => {
    const session = opened(revealing, { permissions: [], rules: [rule({ container: '/bank/' })] });
    expect(decideTokenAccess(session, 'token:read', card)).toEqual({ isGranted: false });
    expect(tokenVisibility(session, 'token:read')).toEqual({
      kind: 'all-of',
      parts: [
        { kind: 'any-of', clauses: [{ kind: 'conditions', conditions: everything }] },
        { kind: 'any-of', clauses: [{ kind: 'container', prefix: '/bank/' }] },
      ],
    });
  });

  it('ends with a right of its authorizer', () => {
    const session = opened(revealing, { permissions: [], rules: [] });
    expect(can(session, 'token:read')).toBe(false);
    expect(tokenVisibility(session, 'token:read')).toEqual({ kind: 'none' });
  });
});
