// The CPU time of a request in two checkouts under the same load, in turn. Windows are short, so that other work of the
// machine affects both equally. The ratio is computed for each pair of windows, and the median of the ratios is the result.
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Destination } from '../e2e/destination.ts';
import { Connection } from './connection.ts';
import type { Job } from './job.ts';
import { median, setUpReactor } from './load.ts';
import { sharesOf, type Shares } from './processes.ts';
import { allowDestination, environmentFor } from './proxy.ts';
import { bulkSize, nextRequest } from './requests.ts';
import { root, startServer, startStackOnDouble, type Server } from './server.ts';

const windowMs = 1_000;
/** The time for the work after the last answer (read models, the seal of the log), which belongs to the window. */
const settleMs = 100;
const maxConnections = 64;

interface Load {
  readonly kind: Job['kind'];
  readonly connections: number;
}

/** The rows. Without `--only`, the first three are measured. */
const rows: Readonly<Record<string, Load>> = {
  'create:64': { kind: 'create', connections: 64 },
  'read:64': { kind: 'read', connections: 64 },
  'react:8': { kind: 'react', connections: 8 },
  'create:8': { kind: 'create', connections: 8 },
  'react:1': { kind: 'react', connections: 1 },
  'read:1': { kind: 'read', connections: 1 },
  // Of 1,000 tokens each.
  'batch:2': { kind: 'batch', connections: 2 },
  'detokenize:2': { kind: 'detokenize', connections: 2 },
  'proxy:64': { kind: 'proxy', connections: 64 },
  'proxy:1': { kind: 'proxy', connections: 1 },
};
const parts = ['main', 'threads', 'postgres'] as const;

interface Options {
  readonly directory: string;
  /** The checkout of the column `here`: this one, if it is undefined. */
  readonly of: string | undefined;
  /** The checkout to compare with. The dependencies of both are installed. */
  readonly other: string;
  readonly port: number;
  /** Of the requests through the proxy. */
  readonly destination: Destination;
  /** Pairs of windows of each row. */
  readonly rounds: number;
  /** One row, such as `create:8`. */
  readonly only: string | undefined;
  /** With `eventstoredb`, each side is a stack of separate processes, and its log is in a double of EventStoreDB. */
  readonly log: string | undefined;
}

interface Side {
  readonly server: Server;
  readonly key: string;
  readonly reactorId: string;
  /** Of the requests through the proxy. */
  readonly destination: string;
  readonly ids: string[];
  readonly connections: readonly Connection[];
}

/** CPU in microseconds a request, and the latencies in milliseconds. */
type Cost = Readonly<Record<'all' | keyof Shares | 'p50' | 'p99', number>>;

/** Of one side. */
interface Place {
  readonly checkout: string;
  readonly directory: string;
  readonly port: number;
}

async function open({ checkout, directory, port }: Place, options: Options): Promise<Side> {
  const { destination: to, log } = options;
  mkdirSync(directory, { mode: 0o711 });
  const start = log === 'eventstoredb' ? startStackOnDouble : startServer;
  const server = await start(directory, port, { checkout, env: environmentFor(to) });
  const code = 'module.exports = async (req) => ({ raw: { last4: req.args.card.number.slice(-4) } });';
  const reactor = await setUpReactor(server, server.managementKey, code);
  const opened = await Promise.all(Array.from({ length: maxConnections }, () => Connection.open(port)));
  // An older checkout may not know the setting.
  const destination = options.only?.startsWith('proxy') ? await allowDestination(server, to) : '';
  return { server, ...reactor, destination, ids: [], connections: opened };
}

/** Loads one side during a window. Gives the latency of each request in milliseconds. */
async function load(side: Side, { kind, connections }: Load): Promise<number[]> {
  const endsAt = performance.now() + windowMs;
  const { key, ids, reactorId, destination } = side;
  const latencies: number[] = [];
  await Promise.all(
    side.connections.slice(0, connections).map(async (connection) => {
      for (let begun = performance.now(); begun < endsAt; begun = performance.now()) {
        const reply = await connection.request(nextRequest({ kind, key, ids, reactorId, destination }));
        latencies.push(performance.now() - begun);
        if (reply.status >= 300) throw new Error(`${kind} answered ${reply.status}: ${reply.body}`);
        if (kind === 'create' && ids.length < 2_000) ids.push((JSON.parse(reply.body) as { id: string }).id);
      }
    }),
  );
  return latencies.sort((a, b) => a - b);
}

const quantile = (sorted: readonly number[], share: number): number =>
  sorted[Math.floor(sorted.length * share)] ?? 0;

async function measureWindow(side: Side, work: Load): Promise<Cost> {
  const before = sharesOf(side.server.pid);
  const latencies = await load(side, work);
  await sleep(settleMs);
  const after = sharesOf(side.server.pid);
  const [main, threads, postgres] = parts.map(
    (part) => ((after[part] - before[part]) / latencies.length) * 1e6,
  );
  const shares = { main: main ?? 0, threads: threads ?? 0, postgres: postgres ?? 0 };
  const all = shares.main + shares.threads + shares.postgres;
  return { ...shares, all, p50: quantile(latencies, 0.5), p99: quantile(latencies, 0.99) };
}

/** The cost of both sides, window by window. The side that begins alternates. */
async function measureKind(sides: readonly [Side, Side], work: Load, rounds: number) {
  const [here, other] = sides;
  for (const side of [here, other, here, other]) await measureWindow(side, work);
  const pairs: { readonly here: Cost; readonly other: Cost }[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const first = round % 2 === 0 ? await measureWindow(here, work) : undefined;
    const ofOther = await measureWindow(other, work);
    pairs.push({ here: first ?? (await measureWindow(here, work)), other: ofOther });
  }
  return pairs;
}

function linesOf(row: string, pairs: readonly { readonly here: Cost; readonly other: Cost }[]): string[] {
  return (['all', ...parts, 'p50', 'p99'] as const).map((part) => {
    const digits = part === 'p50' || part === 'p99' ? 2 : 0;
    const of = (side: 'here' | 'other') => median(pairs.map((pair) => pair[side][part])).toFixed(digits);
    const ratios = pairs.map((pair) => pair.here[part] / pair.other[part]).sort((a, b) => a - b);
    const at = (share: number) => quantile(ratios, share).toFixed(3);
    return `| ${[row, part, of('other'), of('here'), at(0.5), `${at(0.25)}–${at(0.75)}`].join(' | ')} |`;
  });
}

export async function measurePairs(options: Options): Promise<string> {
  const { directory, of = root, other, port, rounds, only } = options;
  const places = [
    { checkout: path.resolve(of), directory: path.join(directory, 'here'), port },
    { checkout: path.resolve(other), directory: path.join(directory, 'other'), port: port + 1 },
  ];
  const sides: Side[] = [];
  try {
    for (const place of places) sides.push(await open(place, options));
    const [here, there] = sides as [Side, Side];
    // Tokens to read: in a request of many, both sides name equally many.
    for (const side of sides)
      while (side.ids.length < bulkSize) await load(side, { kind: 'create', connections: maxConnections });
    const lines: string[] = [];
    const chosen = Object.entries(rows).filter(([row], index) =>
      only === undefined ? index < 3 : row === only,
    );
    for (const [row, work] of chosen) {
      const measured = linesOf(row, await measureKind([here, there], work, rounds));
      process.stderr.write(`${measured.join('\n')}\n`);
      lines.push(...measured);
    }
    return [
      `CPU a request in µs, and latencies in ms: medians of ${rounds} windows of ${windowMs / 1_000} s of each checkout, in turn; the`,
      'ratio is that of neighbouring windows, with its quartiles.',
      '',
      '| request | part | other | here | ratio | quartiles |',
      '| :-- | :-- | --: | --: | --: | --: |',
      ...lines,
      '',
    ].join('\n');
  } finally {
    for (const side of sides) for (const connection of side.connections) connection.close();
    await Promise.all(sides.map(({ server }) => server.stop()));
  }
}
