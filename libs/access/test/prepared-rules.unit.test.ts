import type { AccessRule, AccessRuleCondition, TokenPermission } from '@token-vault/contracts';
import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  decideTokenAccess,
  explainTokenAccess,
  shownAccess,
  type AccessibleToken,
  type Principal,
} from '../src/index.ts';

const callerOf = (rules: readonly AccessRule[], more: Partial<Principal> = {}): Principal => ({
  tenant: { id: 't', plan: 'standard', settings: {} },
  actor: { kind: 'application', id: 'a' },
  applicationId: 'a',
  applicationType: 'private',
  permissions: [],
  rules,
  ...more,
});

/** The rule as the contract has it (interface.md, Access rules): each condition for itself, in its own words. */
function covers({ container, conditions = [] }: AccessRule, { id, containers }: AccessibleToken): boolean {
  const below = (prefix: string) =>
    containers.some((path) => path.toLowerCase().startsWith(prefix.toLowerCase()));
  if (container !== undefined) return below(container);
  const holds = ({ attribute, operator, value }: AccessRuleCondition): boolean => {
    if (attribute === 'id') return operator === 'equals' ? id === value : id.startsWith(value);
    if (operator === 'starts_with') return below(value);
    return containers.some((path) => path.toLowerCase() === value.toLowerCase());
  };
  return conditions.length > 0 && conditions.every(holds);
}

const permissions = ['token:read', 'token:use', 'token:update'] as const;
const ids = fc.constantFrom('a', 'A', 'ab', 'aB', 'abc', 'abd', 'b');
const paths = fc.constantFrom('/', '/a/', '/A/', '/a/b/', '/a/B/', '/ab/', '/a/b/c/', '/b/', '/ß/', '/ΑΣ/');
const cut = fc
  .tuple(paths, fc.nat({ max: 7 }))
  .map(([path, length]) => (length === 0 ? path : path.slice(0, length)));
const operator = fc.constantFrom('equals' as const, 'starts_with' as const);
const condition: fc.Arbitrary<AccessRuleCondition> = fc.oneof(
  fc.record({ attribute: fc.constant('id' as const), operator, value: ids }),
  { weight: 3, arbitrary: fc.record({ attribute: fc.constant('container' as const), operator, value: cut }) },
);
const rule: fc.Arbitrary<AccessRule> = fc
  .record({
    scope: fc.oneof(
      paths.map((container) => ({ container, conditions: undefined })),
      {
        weight: 3,
        arbitrary: fc.array(condition, { maxLength: 4 }).map((conditions) => ({
          container: undefined,
          conditions,
        })),
      },
      fc.constant({ container: undefined, conditions: undefined }),
    ),
    transform: fc.constantFrom('redact' as const, 'mask' as const, 'reveal' as const),
    granted: fc.subarray([...permissions], { minLength: 1 }),
    reason: fc.constantFrom(undefined, 'required' as const),
  })
  .map(({ scope, granted, ...rest }) => ({
    description: undefined,
    priority: 1,
    ...scope,
    ...rest,
    permissions: granted,
  }));
const token: fc.Arbitrary<AccessibleToken> = fc.record({
  id: ids,
  containers: fc.array(paths, { maxLength: 3 }),
});

describe('the rule that decides, for any rules and any token', () => {
  it('is the first that grants the permission and of which each condition holds', () => {
    const found = { by: 0, none: 0, conditions: 0 };
    fc.assert(
      fc.property(
        fc.array(rule, { maxLength: 4 }),
        token,
        fc.constantFrom(...permissions),
        (rules, of, permission) => {
          const want = rules.find((each) => each.permissions.includes(permission) && covers(each, of));
          found[want ? 'by' : 'none'] += 1;
          if ((want?.conditions ?? []).length > 1) found.conditions += 1;
          expect(explainTokenAccess(callerOf(rules), permission, of).rule).toBe(want);
        },
      ),
      { numRuns: 5_000 },
    );
    expect(Math.min(...Object.values(found))).toBeGreaterThan(50);
  });
});

describe('the rules of a caller', () => {
  afterEach(() => vi.restoreAllMocks());
  const all: readonly TokenPermission[] = ['token:read', 'token:search', 'token:use', 'token:update'];
  const inside = `/${'a'.repeat(200)}/`;
  const id = 'i'.repeat(24);
  const beginning = (attribute: 'id' | 'container', value: string): AccessRuleCondition[] =>
    Array.from(value.slice(0, 24), (_, index) => ({
      attribute,
      operator: 'starts_with',
      value: value.slice(0, index + 1),
    }));
  /** All hold for a token inside except the last one. */
  const conditions: readonly AccessRuleCondition[] = [
    ...beginning('id', id),
    ...beginning('container', inside),
    { attribute: 'container', operator: 'starts_with', value: `${inside}b/` },
  ];
  /** The largest rules that are accepted, of which none covers the token. */
  const largest = (): AccessRule[] =>
    Array.from({ length: 100 }, (_, index) => ({
      description: undefined,
      priority: index + 1,
      container: undefined,
      conditions: [...conditions],
      transform: 'reveal',
      permissions: [...all],
    }));

  it('are brought to lower case once, however many decisions are taken by them and by copies of the caller', () => {
    const caller = callerOf(largest());
    const folded = vi.spyOn(String.prototype, 'toLowerCase');
    decideTokenAccess(caller, 'token:read', { id, containers: [inside] });
    folded.mockClear();
    for (let each = 0; each < 50; each += 1)
      shownAccess({ ...caller, reason: 'ticket 12' }, 'token:read', {
        id: `token ${each}`,
        containers: [inside],
      });
    // The path of the token, with a reason and without.
    expect(folded).toHaveBeenCalledTimes(2 * 50);
  });

  it('compare a token with at most two values each', () => {
    const caller = callerOf(largest());
    decideTokenAccess(caller, 'token:read', { id, containers: [inside] });
    const comparing = [vi.spyOn(String.prototype, 'startsWith'), vi.spyOn(String.prototype, 'slice')];
    decideTokenAccess(caller, 'token:read', { id, containers: [inside] });
    const compared = comparing.reduce((sum, { mock }) => sum + mock.calls.length, 0);
    expect(compared).toBeLessThanOrEqual(2 * caller.rules.length);
  });
});
