import { readFile } from 'node:fs/promises';
import path from 'node:path';
import {
  createDataDirectory,
  removeDataDirectory,
  startStandaloneProcess,
  type StandaloneProcess,
} from '@token-vault/test-support';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import {
  alertExpressions,
  alertsFile,
  alwaysAnswering,
  analyse,
  shownExpressions,
} from './observability/expressions.ts';
import { prepareLoad } from './observability/load.ts';
import { hasPrometheus, startPrometheus, type Prometheus } from './observability/prometheus.ts';

vi.setConfig({ testTimeout: 180_000, hookTimeout: 180_000 });

const why = hasPrometheus ? '' : ' (skipped: prometheus is not installed)';
const loadedForMs = 60_000;

describe.skipIf(!hasPrometheus)(`the dashboard and the alerts over a vault under load${why}`, () => {
  let dataDir: string;
  let vault: StandaloneProcess;
  let prometheus: Prometheus;
  const expressions = [
    ...shownExpressions('15s'),
    ...alertExpressions().map(([name, expression]) => [name, alwaysAnswering(expression)] as const),
  ];

  beforeAll(async () => {
    dataDir = await createDataDirectory();
    vault = await startStandaloneProcess({ dataDir, stack: 'processes' });
    const members = JSON.parse(await readFile(path.join(dataDir, 'stack.json'), 'utf8')) as {
      name: string;
      port: number;
    }[];
    const ports = members.filter(({ name }) => name !== 'postgres').map(({ port }) => port);
    prometheus = await startPrometheus(ports, alertsFile);
  });
  afterAll(async () => {
    await prometheus.stop();
    await vault.stop();
    await removeDataDirectory(dataDir);
  });

  /** The names of the expressions that have no series with a number. */
  async function empty(): Promise<string[]> {
    const answers = await Promise.all(
      expressions.map(async ([name, expression]) => [name, await prometheus.query(expression)] as const),
    );
    return answers
      .filter(([, series]) => !series.some(({ value }) => Number.isFinite(Number(value[1]))))
      .map(([name]) => name);
  }

  it('each have a value', async () => {
    const load = await prepareLoad(vault);
    const until = performance.now() + loadedForMs;
    let missing: string[];
    do {
      await load();
      missing = await empty();
    } while (missing.length > 0 && performance.now() < until);
    expect(missing).toEqual([]);
  });

  it('name metrics that the processes show, and Prometheus evaluates the alerts without an error', async () => {
    const names = await prometheus.names();
    for (const [name, expression] of expressions)
      for (const metric of analyse(expression).metrics) expect(names, name).toContain(metric);
    const errors = await prometheus.ruleErrors();
    expect(errors).toEqual(alertExpressions().map(([name]) => [name, '']));
  });

  it('an expression over a metric that no process shows has no value', async () => {
    expect(await prometheus.query('sum(rate(vault_no_such_metric[15s]))')).toEqual([]);
  });
});
