import type { AccessRule, TokenPermission } from '@token-vault/contracts';
import { describe, expect, it } from 'vitest';
import {
  checkGrants,
  decideTokenAccess,
  isDataSearchable,
  seesEverything,
  seesMoreAfterMove,
  tokenVisibility,
  type Principal,
} from '../src/index.ts';

const all: TokenPermission[] = ['token:read', 'token:search', 'token:use', 'token:update', 'token:create'];
const rule = (overrides: Partial<AccessRule>): AccessRule => ({
  description: undefined,
  priority: 1,
  container: '/',
  conditions: undefined,
  transform: 'reveal',
  permissions: all,
  ...overrides,
});
const principal = (rules: AccessRule[], more: Partial<Principal> = {}): Principal => ({
  tenant: { id: 't', plan: 'standard', settings: {} },
  actor: { kind: 'application', id: 'a' },
  applicationId: 'a',
  applicationType: 'private',
  permissions: [],
  rules,
  ...more,
});
const card = { id: 'card-1', containers: ['/pci/high/'] };
const reasoned = { reason: 'ticket 12' };
const required = rule({ reason: 'required' });
const glass = rule({ break_glass: true });
const needsReason = { isGranted: false, needsReason: true };
const masked = { isGranted: true, transform: 'mask' };
const broken = { isGranted: true, transform: 'reveal', isBreakGlass: true };

describe('a rule that requires a reason', () => {
  it.each(['token:read', 'token:search', 'token:use'] as const)('refuses %s without one', (permission) => {
    expect(decideTokenAccess(principal([required]), permission, card)).toEqual(needsReason);
    expect(decideTokenAccess(principal([required], reasoned), permission, card)).toEqual({
      isGranted: true,
      transform: 'reveal',
    });
  });

  it('does not prevent a write', () => {
    expect(decideTokenAccess(principal([required]), 'token:create', card).isGranted).toBe(true);
  });

  it('does not count as seeing the data in a change without one', () => {
    expect(decideTokenAccess(principal([required]), 'token:update', card)).toEqual(masked);
    const redacting = principal([rule({ reason: 'required', transform: 'redact' })]);
    expect(decideTokenAccess(redacting, 'token:update', card)).toMatchObject({ transform: 'redact' });
    expect(decideTokenAccess(principal([required], reasoned), 'token:update', card)).toMatchObject({
      transform: 'reveal',
    });
  });

  it('is not replaced by a later rule or a plain permission', () => {
    const rules = [required, rule({ priority: 2, transform: 'mask' })];
    const caller = principal(rules, { permissions: ['token:read'] });
    expect(decideTokenAccess(caller, 'token:read', card)).toEqual(needsReason);
  });

  it('holds for the sessions of its application', () => {
    const session = principal([rule({})], { authorizer: { permissions: [], rules: [required] } });
    expect(decideTokenAccess(session, 'token:read', card)).toEqual(needsReason);
    expect(tokenVisibility(session, 'token:read')).toEqual({ kind: 'needs-reason' });
  });

  it('refuses a list or a search as a whole', () => {
    const caller = principal([required], { permissions: ['token:read'] });
    expect(tokenVisibility(caller, 'token:read')).toEqual({ kind: 'needs-reason' });
    expect(tokenVisibility({ ...caller, ...reasoned }, 'token:read')).toEqual({ kind: 'all' });
  });
});

describe('a rule with break_glass', () => {
  it('masks a read without a reason, and reveals a read with one', () => {
    expect(decideTokenAccess(principal([glass]), 'token:read', card)).toEqual(masked);
    expect(decideTokenAccess(principal([glass], reasoned), 'token:read', card)).toEqual(broken);
  });

  it('lets a token be used only with a reason', () => {
    expect(decideTokenAccess(principal([glass]), 'token:use', card)).toEqual(needsReason);
    expect(decideTokenAccess(principal([glass], reasoned), 'token:use', card)).toEqual(broken);
  });

  it('never reveals by a write', () => {
    expect(decideTokenAccess(principal([glass], reasoned), 'token:update', card)).toEqual(masked);
    expect(decideTokenAccess(principal([glass], reasoned), 'token:create', card)).toEqual(masked);
  });

  it('is reported when the application of a session has it', () => {
    const session = principal([rule({})], { authorizer: { permissions: [], rules: [glass] }, ...reasoned });
    expect(decideTokenAccess(session, 'token:read', card)).toEqual(broken);
    const masking = { authorizer: { permissions: [], rules: [rule({ transform: 'mask' })] }, ...reasoned };
    expect(decideTokenAccess(principal([glass], masking), 'token:read', card)).toEqual(masked);
  });

  it('does not make hidden data searchable, nor count as seeing everything', () => {
    const caller = principal([rule({ break_glass: true, search_data: false })], reasoned);
    expect(isDataSearchable(caller, card)).toBe(false);
    expect(seesEverything(caller, 'token:read')).toBe(false);
    expect(seesEverything(principal([required], reasoned), 'token:read')).toBe(false);
    expect(seesEverything(principal([rule({})]), 'token:read')).toBe(true);
    expect(seesEverything(principal([rule({})], { isProxyClient: true }), 'token:read')).toBe(false);
  });

  it.each([glass, required])(
    'masks a change by another rule while a reason is asked for reading',
    (strict) => {
      const changing = rule({ permissions: ['token:update'] });
      const reading = { ...strict, priority: 2, permissions: ['token:read' as const] };
      const caller = principal([changing, reading]);
      expect(decideTokenAccess(caller, 'token:update', card)).toEqual(masked);
      const searching = rule({ priority: 3, permissions: ['token:search'] });
      const sees = principal([changing, reading, searching]);
      expect(decideTokenAccess(sees, 'token:update', card)).toMatchObject({ transform: 'reveal' });
      const isStillMasked = strict.break_glass === true;
      expect(decideTokenAccess({ ...caller, ...reasoned }, 'token:update', card)).toMatchObject({
        transform: isStillMasked ? 'mask' : 'reveal',
      });
    },
  );

  it('masks a change with a reason, too, while only a reason shows the data besides a rule with a webhook', () => {
    const rules = [
      { ...glass, permissions: ['token:read' as const] },
      { ...required, priority: 2, permissions: ['token:search' as const] },
      rule({ priority: 3, permissions: ['token:update'] }),
    ];
    expect(decideTokenAccess(principal(rules, reasoned), 'token:update', card)).toEqual(masked);
  });

  it.each([
    ['the session', 'the authorizer'],
    ['the authorizer', 'the session'],
  ])('masks a change by a session while %s needs a reason and %s is shown masks', (strictSide) => {
    const changing = rule({ permissions: ['token:update'] });
    const reading = { ...required, priority: 2, permissions: ['token:read' as const] };
    const searching = rule({ priority: 3, permissions: ['token:search'] });
    const strict = [changing, reading, searching];
    const masking = [changing, { ...searching, transform: 'mask' as const, permissions: all }];
    const [own, lent] = strictSide === 'the session' ? [strict, masking] : [masking, strict];
    const session = principal(own, { authorizer: { permissions: [], rules: lent } });
    expect(decideTokenAccess(session, 'token:search', card)).toEqual(masked);
    expect(decideTokenAccess(session, 'token:update', card)).toEqual(masked);
  });

  it.each([glass, required])('keeps its tokens from being moved to where no reason is asked', (strict) => {
    const rules = [{ ...strict, container: '/pci/' }, rule({ priority: 2, container: '/' })];
    const moved = { id: card.id, containers: ['/low/'] };
    expect(seesMoreAfterMove(principal(rules, reasoned), card, moved)).toBe(true);
  });

  it.each([glass, required])('gets no token by a move from where the mover may see less', (strict) => {
    const moving = rule({ container: '/pci/', permissions: ['token:update'] });
    const moved = { id: card.id, containers: ['/low/'] };
    for (const before of [[], [rule({ container: '/pci/', transform: 'mask', priority: 2 })]]) {
      const rules = [moving, ...before, { ...strict, container: '/low/', priority: 3 }];
      for (const reason of [{}, reasoned])
        expect(seesMoreAfterMove(principal(rules, reason), card, moved)).toBe(true);
    }
    const same = [moving, { ...strict, priority: 3 }];
    expect(seesMoreAfterMove(principal(same, reasoned), card, moved)).toBe(false);
  });

  it('gets no token by a move from under a rule whose uses a webhook reports', () => {
    const rules = [
      { ...glass, container: '/pci/' },
      { ...required, container: '/low/', priority: 2 },
    ];
    const moved = { id: card.id, containers: ['/low/'] };
    expect(seesMoreAfterMove(principal(rules, reasoned), card, moved)).toBe(true);
    expect(seesMoreAfterMove(principal(rules, reasoned), moved, card)).toBe(true);
  });

  it.each(['mask', 'reveal'] as const)(
    'moves no token from under a rule without search of data: %s',
    (transform) => {
      const of = (container: string, more: Partial<AccessRule>) =>
        rule({ container, transform: 'mask', permissions: ['token:search'], ...more });
      const rules = [of('/pci/', { search_data: false }), of('/low/', { priority: 2 })];
      const moved = { id: card.id, containers: ['/low/'] };
      const low = rules.map((each) => ({ ...each, transform }));
      expect(seesMoreAfterMove(principal(low), card, moved)).toBe(transform === 'mask');
      expect(seesMoreAfterMove(principal(low), moved, card)).toBe(false);
    },
  );

  it('is refused for another transform than reveal', () => {
    const rules = [rule({ transform: 'mask', break_glass: true })];
    expect(checkGrants('private', { permissions: [], rules })).toEqual({
      'rules.0.break_glass': ['needs the transform reveal'],
    });
  });

  it.each<[boolean, TokenPermission[]]>([
    [true, ['token:create', 'token:update', 'token:delete']],
    [false, ['token:create', 'token:read']],
    [false, ['token:search']],
    [false, ['token:use']],
  ])('is refused (%s) with the permissions %j: it reveals by those that read', (isRefused, permissions) => {
    const rules = [rule({ break_glass: true, permissions })];
    const text = 'needs one of the permissions token:read, token:search, token:use';
    expect(checkGrants('private', { permissions: [], rules })).toEqual(
      isRefused ? { 'rules.0.break_glass': [text] } : {},
    );
  });
});
