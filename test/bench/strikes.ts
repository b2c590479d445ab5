// What one request of an attack of test/neighbours costs the vault, in two checkouts in turn: `npm run bench -- strikes`.
import { mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from '@token-vault/test-support';
import type { Strike } from '../neighbours/attack.ts';
import { attacks } from '../neighbours/index.ts';
import { median } from './load.ts';
import { sharesOf } from './processes.ts';
import { root, startServer, type Server } from './server.ts';

/** Strikes of a window. The vault lets a tenant alone send few large bodies in a second. */
const strikesOfWindow = 10;
/** `/metrics` is computed once in a second. It also covers the work after the last answer. */
const settleMs = 1_200;

interface StrikesOptions {
  readonly directory: string;
  readonly of: string | undefined;
  readonly other: string;
  readonly port: number;
  /** Pairs of windows of each attack. */
  readonly rounds: number;
  /** Only attacks whose line or name contains this text. */
  readonly only: string | undefined;
}

interface Side {
  readonly server: Server;
  readonly strike: Strike;
}

/** Of one strike, times in milliseconds. `service`: the thread that serves requests. `collecting`: its collections of V8. */
type Cost = Readonly<Record<'service' | 'collecting' | 'threads' | 'postgres' | 'latency', number>>;

const parts = ['service', 'collecting', 'threads', 'postgres', 'latency'] as const;

function serviceSeconds({ pid }: Server): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ', 1)[0]) / 1e9;
}

async function collectingSeconds({ url }: Server): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const sums = text.matchAll(/^nodejs_gc_duration_seconds_sum\{[^}]*\} (\S+)$/gm);
  return [...sums].reduce((sum, [, value]) => sum + Number(value), 0);
}

async function usageOf(server: Server) {
  const { threads, postgres } = sharesOf(server.pid);
  return { service: serviceSeconds(server), collecting: await collectingSeconds(server), threads, postgres };
}

async function measureWindow({ server, strike }: Side): Promise<Cost> {
  const before = await usageOf(server);
  const latencies: number[] = [];
  for (let count = 0; count < strikesOfWindow; count += 1) {
    const begun = performance.now();
    const status = await strike(new AbortController().signal);
    if (status !== 200 && status !== 201) throw new Error(`the attack was answered ${status}`);
    latencies.push(performance.now() - begun);
  }
  await sleep(settleMs);
  const after = await usageOf(server);
  const cost = (part: keyof typeof before) => ((after[part] - before[part]) / strikesOfWindow) * 1e3;
  return {
    service: cost('service'),
    collecting: cost('collecting'),
    threads: cost('threads'),
    postgres: cost('postgres'),
    latency: median(latencies),
  };
}

function linesOf(name: string, pairs: readonly (readonly [here: Cost, other: Cost])[]): string[] {
  return parts.map((part) => {
    const [here, other] = [0, 1].map((side) => median(pairs.map((pair) => (pair[side] as Cost)[part])));
    const ratios = pairs.map(([of, to]) => of[part] / to[part]).sort((one, next) => one - next);
    const at = (share: number) => ratios[Math.floor(ratios.length * share)]?.toFixed(3) ?? '';
    const cells = [name, part, other?.toFixed(1), here?.toFixed(1), at(0.5), `${at(0.25)}–${at(0.75)}`];
    return `| ${cells.join(' | ')} |`;
  });
}

export async function measureStrikes(options: StrikesOptions): Promise<string> {
  const { directory, of = root, other, port, rounds, only = '' } = options;
  const servers: Server[] = [];
  const lines: string[] = [];
  try {
    for (const [index, checkout] of [of, other].entries()) {
      const own = path.join(directory, String(index));
      mkdirSync(own, { mode: 0o711 });
      servers.push(await startServer(own, port + index, { checkout: path.resolve(checkout) }));
    }
    for (const attack of attacks.filter(({ line, name }) => `${line} ${name}`.includes(only))) {
      const sides: Side[] = [];
      for (const server of servers) {
        const { url, managementKey } = server;
        const strike = await attack.prepare({ url, manager: createClient(url, managementKey) });
        sides.push({ server, strike });
      }
      const [here, there] = sides as [Side, Side];
      for (const side of [here, there]) await measureWindow(side);
      const pairs: [Cost, Cost][] = [];
      for (let round = 0; round < rounds; round += 1) {
        const first = round % 2 === 0 ? await measureWindow(here) : undefined;
        const ofOther = await measureWindow(there);
        pairs.push([first ?? (await measureWindow(here)), ofOther]);
      }
      const measured = linesOf(attack.name, pairs);
      process.stderr.write(`${measured.join('\n')}\n`);
      lines.push(...measured);
    }
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
  }
  return [
    `Milliseconds of one request of an attack: medians of ${rounds} windows of ${strikesOfWindow} requests of each checkout, in turn; the ratio is`,
    'that of neighbouring windows, with its quartiles. `service` is the thread that serves requests, `collecting` its collections by V8.',
    '',
    '| attack | part | other | here | ratio | quartiles |',
    '| :-- | :-- | --: | --: | --: | --: |',
    ...lines,
    '',
  ].join('\n');
}
