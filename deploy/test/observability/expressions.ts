import { parser } from '@prometheus-io/lezer-promql';
import { read, readYaml } from '../files.ts';

interface Panel {
  readonly title: string;
  readonly description?: string;
  readonly type: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets?: readonly { readonly expr: string }[];
}
interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly for: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string };
}

export const alertsFile = 'deploy/observability/alerts.yaml';
export const rules = readYaml<{ groups: readonly { rules: readonly Rule[] }[] }>(
  read(alertsFile),
)[0]!.groups.flatMap((group) => group.rules);

const dashboard = JSON.parse(read('deploy/observability/dashboard.json')) as { panels: readonly Panel[] };
/** The panels of the dashboard that show something. */
export const shown = dashboard.panels.filter(({ type }) => type !== 'row');

type Named = readonly [name: string, expression: string];

/** The expressions of the panels, with the interval in place of Grafana's variable. */
export const shownExpressions = (interval: string): Named[] =>
  shown.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr }): Named => [title, expr.replaceAll('$__rate_interval', interval)]),
  );

export const alertExpressions = (): Named[] => rules.map(({ alert, expr }) => [alert, expr]);

export interface Query {
  readonly metrics: readonly string[];
  /** `label="value"`, as written. */
  readonly matchers: readonly string[];
}

/** @throws Error when it is not PromQL */
export function analyse(expression: string): Query {
  const metrics: string[] = [];
  const matchers: string[] = [];
  parser.parse(expression).iterate({
    enter({ name, from, to, type }) {
      const text = expression.slice(from, to);
      if (type.isError) throw new Error(`not PromQL at ${from}: ${expression}`);
      if (name === 'Identifier') metrics.push(text);
      if (name === 'UnquotedLabelMatcher') matchers.push(text);
    },
  });
  return { metrics, matchers };
}

const comparisons: ReadonlySet<string> = new Set(['Gtr', 'Lss', 'Gte', 'Lte', 'Eql', 'Neq']);

/**
 * The expression of an alert with a value, 0 or 1, also while the alert does not hold: each comparison gives its result instead of leaving
 * series out, and `absent` gives what it looks for.
 */
export function alwaysAnswering(expression: string): string {
  const changes: { readonly at: number; readonly to: number; readonly text: string }[] = [];
  parser.parse(expression).iterate({
    enter({ name, from, to, node }) {
      const isComparison = node.parent?.name === 'BinaryExpr' && comparisons.has(name);
      if (isComparison) changes.unshift({ at: to, to, text: ' bool' });
      if (name === 'Absent') changes.unshift({ at: from, to, text: '' });
    },
  });
  return changes.reduce(
    (result, { at, to, text }) => result.slice(0, at) + text + result.slice(to),
    expression,
  );
}
