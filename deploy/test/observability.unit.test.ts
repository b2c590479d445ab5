import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { operations } from '@token-vault/contracts';
import { createMetrics } from '@token-vault/observability';
import { describe, expect, it } from 'vitest';
import { allSources, root } from './files.ts';
import {
  alertExpressions,
  alwaysAnswering,
  analyse,
  rules,
  shown,
  shownExpressions,
} from './observability/expressions.ts';

const expressions = [...shownExpressions('5m'), ...alertExpressions()];

/** The metrics that the processes register, with all names that Prometheus sees. */
function registered(): ReadonlySet<string> {
  const code = allSources();
  const own = [...code.matchAll(/(?:name: |gauge\(\s*)'(vault_[a-z_]+)'/g)].map((match) => match[1] ?? '');
  const ofNode = createMetrics('test')
    .registry.getMetricsAsArray()
    .map(({ name }) => name);
  return new Set(
    [...own, ...ofNode].flatMap((name) => [name, `${name}_bucket`, `${name}_count`, `${name}_sum`]),
  );
}

describe('every expression of the dashboard and the alerts', () => {
  const known = registered();
  const code = allSources();

  it.each(expressions)(
    'of "%s" is PromQL over metrics, operations and events that exist',
    (_title, expression) => {
      const { metrics, matchers } = analyse(expression);
      expect(metrics.length).toBeGreaterThan(0);
      for (const metric of metrics) expect(known.has(metric), metric).toBe(true);
      for (const matcher of matchers) {
        const [, label, values = ''] = /^(\w+)(?:=|!=|=~|!~)"(.*)"$/.exec(matcher) ?? [];
        for (const value of values.split('|')) {
          if (label === 'operation') expect(operations).toHaveProperty(value);
          if (label === 'type') expect(code).toContain(`'${value}'`);
        }
      }
    },
  );

  it('refuses a bad expression and an unknown metric', () => {
    expect(() => analyse('sum by (rate(')).toThrow();
    expect(known.has('vault_no_such_metric')).toBe(false);
    expect(analyse('rate(a_total{b="c"}[5m])')).toEqual({ metrics: ['a_total'], matchers: ['b="c"'] });
  });
});

it('the expression of an alert gives a value also while the alert does not hold', () => {
  expect(alwaysAnswering('max by (a) (b) > 60 and on () c{d!="e"} == 0')).toBe(
    'max by (a) (b) > bool 60 and on () c{d!="e"} == bool 0',
  );
  expect(alwaysAnswering('absent(b)')).toBe('(b)');
});

describe('the dashboard', () => {
  it('explains each panel, and no panel overlaps another', () => {
    for (const { title, description, targets = [] } of shown) {
      expect(description, title).toMatch(/\w/);
      expect(targets.length, title).toBeGreaterThan(0);
    }
    const cells = shown.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, index) => `${x + (index % w)}.${y + Math.floor(index / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
  });
});

describe('the alerts', () => {
  it.each(rules.map((rule) => [rule.alert, rule] as const))(
    '%s has a severity, and waits a little',
    (_name, rule) => {
      expect(rule.labels.severity).toMatch(/^(critical|warning)$/);
      expect(rule.for).toMatch(/^\d+m$/);
      expect(rule.annotations.summary).toMatch(/\w/);
    },
  );

  it('report at once any stored record that was altered, of each kind', () => {
    const told = rules.filter(({ expr }) => analyse(expr).metrics.includes('vault_altered_records_total'));
    expect(told).toMatchObject([{ for: '0m', labels: { severity: 'critical' } }]);
    expect(told[0]?.expr.match(/sum by \(kind\)/g)).toHaveLength(2);
    expect(told.flatMap(({ expr }) => analyse(expr).matchers)).toEqual([]);
  });
});

const promtool = spawnSync('promtool', ['--version']).status === 0;

describe.skipIf(!promtool)('promtool (skipped where Prometheus is not installed)', () => {
  it.each([
    ['check', 'deploy/observability/alerts.yaml'],
    ['test', 'deploy/observability/alerts.test.yaml'],
  ])('%s rules %s', (verb, file) => {
    const done = spawnSync('promtool', [verb, 'rules', path.join(root, file)], { encoding: 'utf8' });
    expect(done.status, done.stderr + done.stdout).toBe(0);
  });
});
