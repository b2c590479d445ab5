// `npm run bench [-- --seconds 5 --rounds 3]`: the standalone vault under load, durable and audited; prints Markdown.
// `npm run bench -- neighbours [--only B6]`: each attack of test/neighbours beside a tenant that reads and creates.
// `npm run bench -- pairs --with ../before [--rounds 15 --only create:64]`: CPU a request against another checkout, window by window in turn.
//   `--of ../after` compares that checkout, instead of this one, with the other.
//   With `--log eventstoredb`, each side is a stack of separate processes, and its log is in a double of EventStoreDB.
// `npm run bench -- strikes --with ../before [--rounds 15 --only B3]`: what one request of each attack costs, against another checkout.
// `npm run bench -- bulk`: only requests of 1,000 tokens. `npm run bench -- proxy`: only requests through the proxy.
// `npm run bench -- transactions`: how fast transactions are filled and ended, by their size.
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import type { Destination } from '../e2e/destination.ts';
import type { Job, Summary } from './job.ts';
import { load, median, setUpReactor } from './load.ts';
import { measureIdlePool, measureNeighbour, type IdlePool, type Neighbour } from './neighbour.ts';
import { measureNeighbours } from './neighbours.ts';
import { measurePairs } from './pairs.ts';
import { machineTimes, usageOf } from './processes.ts';
import { environmentFor, openDestination, proxyCases } from './proxy.ts';
import { bulkSize } from './requests.ts';
import { measureStrikes } from './strikes.ts';
import { measureTransactions } from './transactions.ts';
import { root, startServer, temporaryDirectory, type Server } from './server.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seconds: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '3' },
    port: { type: 'string', default: '18080' },
    only: { type: 'string' },
    of: { type: 'string' },
    with: { type: 'string' },
    log: { type: 'string' },
  },
});
const seconds = Number(values.seconds);
const rounds = Number(values.rounds);
const port = Number(values.port);
/** The generator takes them as an argument, which the kernel limits to 128 KiB. */
const maxIds = 2_000;

type JobOf = Omit<Job, 'port'> & Partial<Pick<Job, 'port'>>;

interface Row {
  readonly name: string;
  readonly cells: readonly string[];
}

async function measure(server: Server, name: string, given: JobOf): Promise<Row> {
  const job = { port: server.port, ...given };
  await load({ ...job, seconds: Math.min(2, seconds) });
  const results: (Summary & { serverCpu: number; idle: number; stolen: number })[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const [before, since] = [usageOf(server.pid).cpuSeconds, machineTimes()];
    const summary = await load(job);
    const now = machineTimes();
    const all = Math.max(1, now.all - since.all);
    results.push({
      ...summary,
      serverCpu: usageOf(server.pid).cpuSeconds - before,
      idle: (now.idle - since.idle) / all,
      stolen: (now.stolen - since.stolen) / all,
    });
  }
  const of = (pick: (result: (typeof results)[number]) => number): number => median(results.map(pick));
  const cells = [
    of((it) => it.perSecond).toFixed(0),
    of((it) => it.p50Ms).toFixed(2),
    of((it) => it.p99Ms).toFixed(2),
    of((it) => (it.serverCpu / it.requests) * 1e6).toFixed(0),
    of((it) => it.cpuSeconds / seconds).toFixed(2),
    of((it) => it.idle * 100).toFixed(0),
    of((it) => it.stolen * 100).toFixed(1),
    usageOf(server.pid).memoryMb.toFixed(0),
    String(results.reduce((sum, it) => sum + it.failures, 0)),
  ];
  process.stderr.write(`${name}: ${cells.join(' · ')}\n`);
  return { name, cells };
}

/** Each request has 1,000 tokens, if so many were made before: the targets are 10 of the first and 15 of the second in a second. */
async function measureBulk(server: Server, job: Pick<Job, 'key' | 'seconds' | 'ids'>): Promise<Row[]> {
  const each = { ...job, connections: 2 };
  const named = Math.min(bulkSize, job.ids.length);
  return [
    await measure(server, 'create 1,000 a request, 2 connections', { ...each, kind: 'batch' }),
    await measure(server, `detokenize ${named} a request, 2 connections`, { ...each, kind: 'detokenize' }),
  ];
}

/** The targets: the p50 of the second is at most 5 ms above that of the first; the third has 1,500 requests in a second. */
async function measureProxy(
  server: Server,
  destination: Destination,
  job: Pick<Job, 'key' | 'seconds' | 'ids'>,
): Promise<Row[]> {
  const rows: Row[] = [];
  for (const [name, each] of await proxyCases(server, destination, job))
    rows.push(await measure(server, name, { ...each, seconds: job.seconds }));
  return rows;
}

async function bench(directory: string, destination: Destination): Promise<string> {
  const compared = {
    directory,
    of: values.of,
    other: values.with ?? '',
    port,
    rounds,
    only: values.only,
  };
  if (positionals.includes('strikes')) return measureStrikes(compared);
  if (positionals.includes('pairs')) return measurePairs({ ...compared, destination, log: values.log });
  const first = await startServer(directory, port);
  const firstReadyMs = first.readyAfterMs;
  await first.stop();
  const server = await startServer(directory, port, { env: environmentFor(destination) });
  try {
    const { key, reactorId } = await setUpReactor(
      server,
      server.managementKey,
      'module.exports = async (req) => ({ raw: { last4: req.args.card.number.slice(-4) } });',
    );
    const base = { key, seconds, ids: [] as string[] };
    const seeded = await load({ ...base, kind: 'create', connections: 64, seconds: 2, port });
    const ids = seeded.ids.slice(0, maxIds);
    if (positionals.includes('transactions')) return await measureTransactions(server, key, rounds);
    if (positionals.includes('neighbours'))
      return await measureNeighbours(
        { ...server, dataDir: directory },
        { key, ids, port },
        { seconds, rounds, only: values.only },
      );
    if (positionals.includes('bulk'))
      return report(await measureBulk(server, { ...base, ids }), firstReadyMs, server.readyAfterMs);
    if (positionals.includes('proxy'))
      return report(
        await measureProxy(server, destination, { ...base, ids }),
        firstReadyMs,
        server.readyAfterMs,
      );
    const rows = [
      await measure(server, 'create, 1 connection', { ...base, kind: 'create', connections: 1 }),
      await measure(server, 'create, 64 connections', { ...base, kind: 'create', connections: 64 }),
      await measure(server, 'read masked, 1 connection', { ...base, kind: 'read', connections: 1, ids }),
      await measure(server, 'read masked, 64 connections', { ...base, kind: 'read', connections: 64, ids }),
      await measure(server, '90 % read 10 % create, 64', { ...base, kind: 'mixed', connections: 64, ids }),
      await measure(server, 'list 20, 16 connections', { ...base, kind: 'list', connections: 16 }),
      ...(await measureBulk(server, { ...base, ids })),
      ...(await measureProxy(server, destination, { ...base, ids })),
      await measure(server, 'react with one card, 1 connection', {
        ...base,
        kind: 'react',
        connections: 1,
        ids,
        reactorId,
      }),
      await measure(server, 'react with one card, 8 connections', {
        ...base,
        kind: 'react',
        connections: 8,
        ids,
        reactorId,
      }),
    ];
    const react = { ...base, kind: 'react', connections: 8, ids, reactorId } as const;
    const neighbours = await measureNeighbour(server, directory, react, rounds);
    const idlePool = await measureIdlePool(server);
    return [report(rows, firstReadyMs, server.readyAfterMs), reportSandbox(neighbours, idlePool)].join('\n');
  } finally {
    await server.stop();
  }
}

function report(rows: readonly Row[], firstReadyMs: number, laterReadyMs: number): string {
  const header = [
    'case',
    'requests/s',
    'p50 ms',
    'p99 ms',
    'server CPU µs/request',
    'generator CPU',
    'idle %',
    'stolen %',
    'memory MB',
    'failures',
  ];
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [
    `# Benchmark: standalone, fsync on, ${cpus().length} cores shared with the generator, Node ${process.version}`,
    '',
    `Medians of ${rounds} rounds of ${seconds} s after a warm-up. Ready after ${firstReadyMs.toFixed(0)} ms (first start),`,
    `${laterReadyMs.toFixed(0)} ms (later start). Every create is durable and visible before its answer; every read is audited durably.`,
    'Idle and stolen are shares of all processors; stolen is what the host gave to other machines meanwhile.',
    '',
    line(header),
    line(header.map((_, index) => (index === 0 ? ':--' : '--:'))),
    ...rows.map((row) => line([row.name, ...row.cells])),
    '',
  ].join('\n');
}

function reportSandbox(neighbours: readonly Neighbour[], idle: IdlePool): string {
  const of = ({ perSecond, p50Ms, p99Ms }: Summary) =>
    `${perSecond.toFixed(0)}/s | ${p50Ms.toFixed(2)} | ${p99Ms.toFixed(2)}`;
  return [
    'The same runs while another tenant keeps eight endless loops going, in turn with alone; medians by p99:',
    '',
    '| connections | alone | p50 ms | p99 ms | beside | p50 ms | p99 ms | p99 × | stolen % |',
    '| --: | --: | --: | --: | --: | --: | --: | --: | --: |',
    ...neighbours.map(
      ({ connections, alone, beside, factor, stolen }) =>
        `| ${connections} | ${of(alone)} | ${of(beside)} | ${factor.toFixed(2)} | ${(stolen * 100).toFixed(1)} |`,
    ),
    '',
    `The sandbox's processes hold ${idle.afterWorkMb.toFixed(0)} MB after all that, ${idle.laterMb.toFixed(0)} MB when nothing has run for 40 s.`,
    '',
  ].join('\n');
}

const directory = temporaryDirectory();
const destination = await openDestination();
try {
  const markdown = await bench(directory.path, destination);
  mkdirSync(path.join(root, 'bench-results'), { recursive: true });
  const name = `${positionals[0] ?? 'standalone'}.md`;
  writeFileSync(path.join(root, 'bench-results', name), markdown);
  process.stdout.write(markdown);
} finally {
  await destination.close();
  directory.remove();
}
