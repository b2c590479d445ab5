import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { freePorts } from '@token-vault/process';
import { waitUntil } from '@token-vault/test-support';
import { root } from '../files.ts';

export const hasPrometheus = spawnSync('prometheus', ['--version']).status === 0;

interface Series {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [time: number, value: string];
}

export interface Prometheus {
  /** The series of an expression now. @throws Error with what Prometheus says */
  query(expression: string): Promise<readonly Series[]>;
  /** The names of all metrics that were seen. */
  names(): Promise<readonly string[]>;
  /** Each alert with the error of its last evaluation. */
  ruleErrors(): Promise<readonly (readonly [name: string, error: string])[]>;
  stop(): Promise<void>;
}

/** A Prometheus that asks each of the ports of this machine once in a second. */
export async function startPrometheus(ports: readonly number[], rulesFile: string): Promise<Prometheus> {
  const directory = await mkdtemp(path.join(os.tmpdir(), 'vault-prometheus-'));
  const [port = 0] = await freePorts(['127.0.0.1']);
  const configuration = {
    global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
    rule_files: [path.join(root, rulesFile)],
    scrape_configs: [
      { job_name: 'vault', static_configs: [{ targets: ports.map((each) => `127.0.0.1:${each}`) }] },
    ],
  };
  const file = path.join(directory, 'prometheus.yml');
  // JSON is YAML.
  await writeFile(file, JSON.stringify(configuration));
  const child = spawn(
    'prometheus',
    [
      `--config.file=${file}`,
      `--storage.tsdb.path=${path.join(directory, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--log.level=error',
    ],
    { stdio: ['ignore', 'ignore', 'inherit'] },
  );
  const url = `http://127.0.0.1:${port}`;
  await waitUntil(async () => (await fetch(`${url}/-/ready`)).ok, { timeoutMs: 30_000, what: 'Prometheus' });

  async function ask<Data>(route: string): Promise<Data> {
    const answer = (await (await fetch(`${url}/api/v1/${route}`)).json()) as { data: Data; error?: string };
    if (answer.error !== undefined) throw new Error(`${route}: ${answer.error}`);
    return answer.data;
  }
  return {
    query: async (expression) =>
      (await ask<{ result: Series[] }>(`query?query=${encodeURIComponent(expression)}`)).result,
    names: () => ask<string[]>('label/__name__/values'),
    async ruleErrors() {
      type Groups = { groups: { rules: { name: string; lastError?: string }[] }[] };
      const { groups } = await ask<Groups>('rules');
      return groups.flatMap((group) =>
        group.rules.map(({ name, lastError = '' }) => [name, lastError] as const),
      );
    },
    async stop() {
      child.kill('SIGTERM');
      await once(child, 'exit');
      await rm(directory, { recursive: true, force: true });
    },
  };
}
