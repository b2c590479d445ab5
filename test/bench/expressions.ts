// What a tenant with expressions that take all they may is to another one's reads.
import type { Job, Summary } from './job.ts';
import { load, middle, post } from './load.ts';
import { createTenant, whileLooping } from './neighbour.ts';
import type { Server } from './server.ts';

const seconds = 10;
const connections = 8;

export interface ExpressionNeighbour {
  readonly attack: string;
  readonly alone: Summary;
  readonly beside: Summary;
  /** Of the 99th percentiles. */
  readonly factor: number;
}

const slow = '{% for i in (1..3000) %}{% for j in (1..3000) %}{{ i }}{% endfor %}{% endfor %}';
const attacks: Readonly<Record<string, object>> = {
  'template that takes its time': { type: 'token', data: 'x', mask: slow },
  // What creating tokens of that size takes by itself.
  'none, 500 KB': { type: 'token', data: 'x'.repeat(500_000) },
  '20 filters over 500 KB': {
    type: 'token',
    data: 'x'.repeat(500_000),
    mask: `{{ data${' | reveal: 1'.repeat(20)} }}`,
  },
  '3 filters over 4 KB, which need no worker': {
    type: 'token',
    data: 'x'.repeat(4_000),
    mask: '{{ data | reveal: 1 | reveal: 1 | reveal: 1 }}',
  },
};

/** Alone and beside in turn, so that both meet the same machine; medians. Each attack is the same create, eight at once. */
export async function measureExpressionNeighbours(
  server: Server,
  dataDir: string,
  ids: readonly string[],
  { key, rounds }: { readonly key: string; readonly rounds: number },
): Promise<ExpressionNeighbour[]> {
  const { key: attacker = '' } = await post(server, '/applications', createTenant(dataDir), {
    name: 'attacker',
    type: 'public',
    permissions: ['token:create'],
  });
  const job: Job = { kind: 'read', key, ids, connections, seconds, port: server.port };
  const results: ExpressionNeighbour[] = [];
  for (const [attack, body] of Object.entries(attacks)) {
    const alone: Summary[] = [];
    const beside: Summary[] = [];
    // Refused or not, it has taken what it takes.
    const create = () => post(server, '/tokens', attacker, body).catch(() => undefined);
    for (let round = 0; round < rounds; round += 1) {
      alone.push(await load(job));
      beside.push(await whileLooping(create, () => load(job)));
    }
    const result = { attack, alone: middle(alone), beside: middle(beside) };
    const factor = result.beside.p99Ms / result.alone.p99Ms;
    process.stderr.write(`beside ${attack}: p99 ×${factor.toFixed(2)}\n`);
    results.push({ ...result, factor });
  }
  return results;
}

export function reportExpressions(results: readonly ExpressionNeighbour[]): string {
  const of = ({ perSecond, p50Ms, p99Ms }: Summary) =>
    `${perSecond.toFixed(0)}/s | ${p50Ms.toFixed(2)} | ${p99Ms.toFixed(2)}`;
  return [
    'Masked reads, 8 connections, while another tenant creates tokens with expressions that take much, eight at once; medians by p99:',
    '',
    '| expressions | alone | p50 ms | p99 ms | beside | p50 ms | p99 ms | p99 × |',
    '| :-- | --: | --: | --: | --: | --: | --: | --: |',
    ...results.map(
      ({ attack, alone, beside, factor }) =>
        `| ${attack} | ${of(alone)} | ${of(beside)} | ${factor.toFixed(2)} |`,
    ),
    '',
  ].join('\n');
}
