import type { AccessRule, Transform } from '@token-vault/contracts';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  isDataSearchable,
  searchableData,
  tokenVisibility,
  type Grants,
  type Principal,
  type VisibilityClause,
} from '../src/index.ts';

const token = { id: 'token-1', containers: ['/a/b/'] };
const covering = ['/', '/a/', '/a/b/'];

const transforms = fc.constantFrom<Transform>('redact', 'mask', 'reveal');
const containers = fc.constantFrom(...covering, '/c/');
const scope = fc.oneof(
  containers.map((container) => ({ container, conditions: undefined })),
  containers.map((value) => ({
    container: undefined,
    conditions: [{ attribute: 'container', operator: 'starts_with', value } as const],
  })),
);
const rules: fc.Arbitrary<AccessRule> = fc
  .record({
    scope,
    transform: transforms,
    isClosed: fc.boolean(),
    isGlass: fc.boolean(),
    permissions: fc.constantFrom(['token:search'] as const, ['token:read'] as const),
  })
  .map(({ scope: of, transform, isClosed, isGlass, permissions }) => ({
    description: undefined,
    priority: 1,
    ...of,
    transform,
    permissions: [...permissions],
    ...(isClosed && { search_data: false }),
    ...(isGlass && transform === 'reveal' && { break_glass: true }),
  }));
const grants: fc.Arbitrary<Grants> = fc.record({
  permissions: fc.constantFrom([], ['token:search' as const]),
  rules: fc.array(rules, { maxLength: 3 }),
});
const callers: fc.Arbitrary<Principal> = fc
  .record({
    own: grants,
    authorizer: fc.option(grants, { nil: undefined }),
    shownAtMost: fc.option(fc.constantFrom('mask' as const, 'redact' as const), { nil: undefined, freq: 1 }),
    reason: fc.constantFrom(undefined, 'ticket 12'),
  })
  .map(({ own, authorizer, shownAtMost, reason }) => ({
    tenant: { id: 't', plan: 'standard', settings: {} },
    actor: { kind: 'application', id: 'a' },
    applicationId: 'a',
    applicationType: 'private',
    ...own,
    ...(authorizer && { authorizer }),
    ...(shownAtMost && { shownAtMost }),
    ...(reason !== undefined && { reason }),
  }));

const covers = (rule: AccessRule): boolean =>
  covering.includes(rule.container ?? rule.conditions?.[0]?.value ?? '');

/** What one side says of the token. Undefined: it may not find it. */
function saidBy({ permissions, rules: given }: Grants) {
  const rule = given.find((each) => each.permissions.includes('token:search') && covers(each));
  if (!rule) return permissions.includes('token:search') ? { reveals: false, isClosed: false } : undefined;
  const reveals = rule.transform === 'reveal' && rule.break_glass !== true;
  return { reveals, isClosed: rule.search_data === false };
}

/** Undefined: the caller may not find the token. */
function expected(caller: Principal): boolean | undefined {
  const said = [caller, ...(caller.authorizer ? [caller.authorizer] : [])].map(saidBy);
  const sides = said.filter((side) => side !== undefined);
  if (sides.length < said.length) return undefined;
  const isShown = caller.shownAtMost === undefined && sides.every(({ reveals }) => reveals);
  return isShown || !sides.some(({ isClosed }) => isClosed);
}

const isIn = (clause: VisibilityClause): boolean =>
  covering.includes(clause.kind === 'container' ? clause.prefix : (clause.conditions[0]?.value ?? ''));

/** The meaning of the condition that the database applies. */
function isMatched(caller: Principal): boolean {
  const searchable = searchableData(caller);
  if (searchable.kind === 'all') return true;
  const first = searchable.sides.map((side) => side.find(({ clause }) => isIn(clause)));
  return first.every((rule) => rule?.isAllowed ?? true) || first.every((rule) => rule?.isRevealed ?? false);
}

describe('searches over data, for any rules of a caller and of its authorizer', () => {
  it('match a token that both sides allow, or that both reveal, and no other', () => {
    const counts = { yes: 0, no: 0 };
    fc.assert(
      fc.property(callers, (caller) => {
        const want = expected(caller);
        fc.pre(want !== undefined);
        counts[want ? 'yes' : 'no'] += 1;
        expect(isDataSearchable(caller, token)).toBe(want);
        expect(isMatched(caller)).toBe(want);
        expect(tokenVisibility(caller, 'token:search').kind).not.toBe('none');
      }),
      { numRuns: 3000 },
    );
    expect(Math.min(counts.yes, counts.no)).toBeGreaterThan(100);
  });
});
