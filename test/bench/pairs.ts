// Two checkouts under the same load, in turn: what a request costs each in processor time. Windows are short, so that what else the
// machine does meets both alike; the ratio is taken window by window, and its median is the result.
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Connection } from './connection.ts';
import type { Job } from './job.ts';
import { median, setUpReactor } from './load.ts';
import { sharesOf, type Shares } from './processes.ts';
import { nextRequest } from './requests.ts';
import { root, startServer, type Server } from './server.ts';

const connections = 64;
const windowMs = 1_000;
/** The time for the work after the last answer (read models, the seal of the log), which belongs to the window. */
const settleMs = 100;
const kinds = ['create', 'read'] as const;
const parts = ['main', 'threads', 'postgres'] as const;

interface Options {
  readonly directory: string;
  /** The checkout to compare with. Its dependencies are installed. */
  readonly other: string;
  readonly port: number;
  /** Pairs of windows of each kind. */
  readonly rounds: number;
  readonly only: string | undefined;
}

interface Side {
  readonly server: Server;
  readonly key: string;
  readonly ids: string[];
  readonly connections: readonly Connection[];
}

/** CPU in microseconds a request. */
type Cost = Readonly<Record<'all' | keyof Shares, number>>;

async function open(checkout: string, directory: string, port: number): Promise<Side> {
  mkdirSync(directory, { mode: 0o711 });
  const server = await startServer(directory, port, { checkout });
  const { key } = await setUpReactor(server, server.managementKey, 'module.exports = async () => ({});');
  const opened = await Promise.all(Array.from({ length: connections }, () => Connection.open(port)));
  return { server, key, ids: [], connections: opened };
}

/** Puts the load of a window on one side; gives how many requests it answered. */
async function load(side: Side, kind: Job['kind']): Promise<number> {
  const endsAt = performance.now() + windowMs;
  let requests = 0;
  await Promise.all(
    side.connections.map(async (connection) => {
      while (performance.now() < endsAt) {
        const reply = await connection.request(nextRequest({ kind, key: side.key, ids: side.ids }));
        if (reply.status >= 300) throw new Error(`${kind} answered ${reply.status}: ${reply.body}`);
        if (kind === 'create' && side.ids.length < 2_000)
          side.ids.push((JSON.parse(reply.body) as { id: string }).id);
        requests += 1;
      }
    }),
  );
  return requests;
}

async function measureWindow(side: Side, kind: Job['kind']): Promise<Cost> {
  const before = sharesOf(side.server.pid);
  const requests = await load(side, kind);
  await sleep(settleMs);
  const after = sharesOf(side.server.pid);
  const [main, threads, postgres] = parts.map((part) => ((after[part] - before[part]) / requests) * 1e6);
  const shares = { main: main ?? 0, threads: threads ?? 0, postgres: postgres ?? 0 };
  return { ...shares, all: shares.main + shares.threads + shares.postgres };
}

/** The cost of both sides, window by window. The side that begins alternates. */
async function measureKind(sides: readonly [Side, Side], kind: Job['kind'], rounds: number) {
  const [here, other] = sides;
  for (const side of [here, other, here, other]) await measureWindow(side, kind);
  const pairs: { readonly here: Cost; readonly other: Cost }[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const first = round % 2 === 0 ? await measureWindow(here, kind) : undefined;
    const ofOther = await measureWindow(other, kind);
    pairs.push({ here: first ?? (await measureWindow(here, kind)), other: ofOther });
  }
  return pairs;
}

function rowsOf(kind: string, pairs: readonly { readonly here: Cost; readonly other: Cost }[]): string[] {
  return (['all', ...parts] as const).map((part) => {
    const of = (side: 'here' | 'other') => median(pairs.map((pair) => pair[side][part])).toFixed(0);
    const ratios = pairs.map((pair) => pair.here[part] / pair.other[part]).sort((a, b) => a - b);
    const at = (share: number) => (ratios[Math.floor(ratios.length * share)] ?? 0).toFixed(3);
    return `| ${[kind, part, of('other'), of('here'), at(0.5), `${at(0.25)}–${at(0.75)}`].join(' | ')} |`;
  });
}

export async function measurePairs(options: Options): Promise<string> {
  const { directory, other, port, rounds, only } = options;
  const sides: Side[] = [];
  try {
    sides.push(await open(root, path.join(directory, 'here'), port));
    sides.push(await open(path.resolve(other), path.join(directory, 'other'), port + 1));
    const [here, there] = sides as [Side, Side];
    // Every kind of measurement needs tokens to read.
    for (const side of sides) await load(side, 'create');
    const rows: string[] = [];
    for (const kind of kinds.filter((it) => only === undefined || it === only)) {
      rows.push(...rowsOf(kind, await measureKind([here, there], kind, rounds)));
      process.stderr.write(`${rows.slice(-4).join('\n')}\n`);
    }
    return [
      `CPU a request at ${connections} connections, in µs: medians of ${rounds} windows of ${windowMs / 1_000} s of each checkout, in turn; the`,
      'ratio is that of neighbouring windows, with its quartiles.',
      '',
      '| request | part | other | here | ratio | quartiles |',
      '| :-- | :-- | --: | --: | --: | --: |',
      ...rows,
      '',
    ].join('\n');
  } finally {
    for (const side of sides) for (const connection of side.connections) connection.close();
    await Promise.all(sides.map(({ server }) => server.stop()));
  }
}
