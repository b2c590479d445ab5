import type { AccessRule, AccessRuleCondition, Permission } from '@token-vault/contracts';

/** The properties of a token that an access decision needs. */
export interface AccessibleToken {
  readonly id: string;
  readonly containers: readonly string[];
}

/** A value that a token must have: this one, or one that begins with it. */
interface Wanted {
  readonly value: string;
  readonly isWhole: boolean;
}

interface PreparedRule {
  readonly rule: AccessRule;
  readonly ids: readonly Wanted[];
  /** In lower case. */
  readonly containers: readonly Wanted[];
}

/** For 400 equal characters `startsWith` takes 25 times as long: it compares them one by one. */
const beginsWith = (given: string, value: string): boolean => given.slice(0, value.length) === value;

const meets = (given: string, { value, isWhole }: Wanted): boolean =>
  isWhole ? given === value : beginsWith(given, value);

/** Each is met by one of the values. */
function areMet(wanted: readonly Wanted[], values: readonly string[]): boolean {
  for (const each of wanted) {
    if (!values.some((value) => meets(value, each))) return false;
  }
  return true;
}

/** Each value that meets `one` meets `other`, too. */
const implies = (one: Wanted, other: Wanted): boolean =>
  other.isWhole ? one.isWhole && one.value === other.value : beginsWith(one.value, other.value);

function byValue(one: Wanted, other: Wanted): number {
  if (one.value !== other.value) return one.value < other.value ? -1 : 1;
  return Number(one.isWhole) - Number(other.isWhole);
}

/**
 * Leaves out what another one implies. No value meets two of those that are left, so a decision about a token in one container checks at most
 * two of them.
 */
function strictest(wanted: readonly Wanted[]): readonly Wanted[] {
  if (wanted.length < 2) return wanted;
  // In this order the next one implies it, if any does.
  const sorted = [...wanted].sort(byValue);
  return sorted.filter((each, index) => {
    const next = sorted[index + 1];
    return next === undefined || !implies(next, each);
  });
}

/** A grant on a container covers its sub-containers; upper and lower case of containers are equal (rules.md §3). */
function conditionsOf({ container, conditions = [] }: AccessRule): readonly AccessRuleCondition[] {
  if (container === undefined) return conditions;
  return [{ attribute: 'container', operator: 'starts_with', value: container }];
}

function prepare(rule: AccessRule): PreparedRule {
  const conditions = conditionsOf(rule);
  const wantedOf = (attribute: AccessRuleCondition['attribute'], fold: (value: string) => string) =>
    strictest(
      conditions
        .filter((condition) => condition.attribute === attribute)
        .map(({ operator, value }) => ({ value: fold(value), isWhole: operator === 'equals' })),
    );
  return {
    rule,
    ids: wantedOf('id', (value) => value),
    containers: wantedOf('container', (value) => value.toLowerCase()),
  };
}

/** The rules by permission, in the order of their priority. */
type PreparedRules = ReadonlyMap<Permission, readonly PreparedRule[]>;

function prepareAll(rules: readonly AccessRule[]): PreparedRules {
  const byPermission = new Map<Permission, PreparedRule[]>();
  for (const rule of rules) {
    const prepared = prepare(rule);
    // A rule without conditions would otherwise cover all tokens.
    if (prepared.ids.length + prepared.containers.length === 0) continue;
    for (const permission of rule.permissions) {
      const before = byPermission.get(permission);
      if (before) before.push(prepared);
      else byPermission.set(permission, [prepared]);
    }
  }
  return byPermission;
}

/** By the array, which all principals share that are copied from one caller. */
const known = new WeakMap<readonly AccessRule[], PreparedRules>();

/**
 * The first of the rules that grants the permission and covers the token. The rules are prepared once: a session may have 5,000 conditions, and
 * a page or a batch takes a thousand decisions.
 */
export function firstCovering(
  rules: readonly AccessRule[],
  permission: Permission,
  { id, containers }: AccessibleToken,
): AccessRule | undefined {
  if (rules.length === 0) return undefined;
  let prepared = known.get(rules);
  if (!prepared) known.set(rules, (prepared = prepareAll(rules)));
  const granting = prepared.get(permission);
  if (!granting) return undefined;
  const paths = containers.map((path) => path.toLowerCase());
  for (const each of granting) if (areMet(each.ids, [id]) && areMet(each.containers, paths)) return each.rule;
  return undefined;
}
