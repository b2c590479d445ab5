// Each attack of test/neighbours beside a tenant that reads and creates: `npm run bench -- neighbours`.
import type { StandaloneProcess } from '@token-vault/test-support';
import type { Attack } from '../neighbours/attack.ts';
import { attacks } from '../neighbours/index.ts';
import { startAttacker } from './attacker.ts';
import type { Job, Summary } from './job.ts';
import { load, middle } from './load.ts';
import { createTenant } from './neighbour.ts';

/** The connections of a neighbour (issue 18, B1). */
const connections = 8;
/** The time until caches are warm and queues have their full length. */
const lead = 1_000;

export interface NeighbourOptions {
  readonly seconds: number;
  readonly rounds: number;
  /** Only attacks whose line or name contains this text. */
  readonly only?: string | undefined;
}

interface NeighbourRow {
  readonly attack: Attack;
  readonly alone: Summary;
  readonly beside: Summary;
  readonly strikesPerSecond: number;
  readonly answers: string;
}

type Vault = Pick<StandaloneProcess, 'url' | 'dataDir'>;

/**
 * Alone and beside the attack in turn, so that both run on the same state of the machine. The medians by p99. Of an attack with `sink`, alone
 * is beside its client.
 */
async function measure(attack: Attack, vault: Vault, job: Job, rounds: number): Promise<NeighbourRow> {
  const attacker = await startAttacker({
    attack: attack.name,
    url: vault.url,
    managementKey: createTenant(vault.dataDir),
  });
  const alone: Summary[] = [];
  const beside: Summary[] = [];
  const answers = new Map<string, number>();
  let [strikes, milliseconds] = [0, 0];
  for (let round = 0; round < rounds; round += 1) {
    attacker.beginOnSink();
    await new Promise((resolve) => setTimeout(resolve, lead));
    alone.push(await load(job));
    await attacker.stop();
    const begun = performance.now();
    attacker.begin();
    await new Promise((resolve) => setTimeout(resolve, lead));
    beside.push(await load(job));
    milliseconds += performance.now() - begun;
    const made = await attacker.stop();
    strikes += made.count;
    for (const [status, count] of made.answers) answers.set(status, (answers.get(status) ?? 0) + count);
  }
  await attacker.end();
  const told = [...answers].map(([status, count]) => `${status}: ${count}`).join(', ');
  const strikesPerSecond = (strikes / milliseconds) * 1_000;
  return { attack, alone: middle(alone), beside: middle(beside), strikesPerSecond, answers: told };
}

const factorOf = ({ alone, beside }: NeighbourRow): number => beside.p99Ms / alone.p99Ms;

export async function measureNeighbours(
  vault: Vault,
  job: Omit<Job, 'connections' | 'seconds' | 'kind'>,
  { seconds, rounds, only = '' }: NeighbourOptions,
): Promise<string> {
  const rows: NeighbourRow[] = [];
  for (const attack of attacks.filter(({ line, name }) => `${line} ${name}`.includes(only))) {
    const row = await measure(attack, vault, { ...job, kind: 'mixed', connections, seconds }, rounds);
    process.stderr.write(`${report([row]).split('\n').at(-2) ?? ''}\n`);
    rows.push(row);
  }
  return report(rows);
}

function report(rows: readonly NeighbourRow[]): string {
  const of = ({ perSecond, p50Ms, p99Ms }: Summary) =>
    `${perSecond.toFixed(0)}/s | ${p50Ms.toFixed(1)} | ${p99Ms.toFixed(1)}`;
  return [
    `90 % masked reads and 10 % creates by ${connections} connections of one tenant, in turn alone and beside each attack of another tenant;`,
    'medians by p99. The aim is p99 × ≤ 2. The attacker’s own work is on the same processors, with the lowest priority.',
    'With *: alone is beside the same client, whose requests go to a server that is not the vault.',
    '',
    '| attack | line | alone | p50 ms | p99 ms | beside | p50 ms | p99 ms | p99 × | refused | strikes/s | their answers |',
    '| :-- | :-- | --: | --: | --: | --: | --: | --: | --: | --: | --: | :-- |',
    ...rows.map((row) => {
      const { attack, alone, beside } = row;
      const name = `${attack.name}${attack.sink === undefined ? '' : ' *'}`;
      const cells = [name, attack.line, of(alone), of(beside), factorOf(row).toFixed(2)];
      const rest = [beside.failures, row.strikesPerSecond.toFixed(1), row.answers];
      return `| ${[...cells, ...rest].join(' | ')} |`;
    }),
    '',
  ].join('\n');
}
