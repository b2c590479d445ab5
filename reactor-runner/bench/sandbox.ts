/**
 * Measures the sandbox alone: `node reactor-runner/bench/sandbox.ts`.
 * Trivial runs at eight connections, the memory of an idle pool, and what a tenant with endless loops does to another.
 */
import { readFileSync } from 'node:fs';
import { createSandboxPool } from '../src/sandbox/index.ts';
import type { RunRequest, SandboxPool } from '../src/sandbox/index.ts';

const trivial = 'module.exports = async (req) => ({ raw: { last4: req.args.number.slice(-4) } });';
const connections = 8;
const seconds = 4;

const request = (tenantId: string, code: string, timeoutMs: number): RunRequest => ({
  tenantId,
  code,
  timeoutMs,
  args: { number: '4242424242424242' },
  configuration: {},
  hasSvc: false,
  hostCalls: { fetch: () => new Promise(() => {}) },
});

interface Latencies {
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
}

async function measure(pool: SandboxPool, atOnce: number): Promise<Latencies> {
  const taken: number[] = [];
  const until = performance.now() + seconds * 1_000;
  const connection = async (): Promise<void> => {
    while (performance.now() < until) {
      const startedAt = performance.now();
      const { kind } = await pool.run(request('alice', trivial, 10_000));
      if (kind !== 'succeeded') throw new Error(`a trivial run ended as ${kind}`);
      taken.push(performance.now() - startedAt);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, connection));
  taken.sort((a, b) => a - b);
  const at = (share: number): number => taken[Math.floor(taken.length * share)] ?? NaN;
  return { perSecond: taken.length / seconds, p50: at(0.5), p99: at(0.99) };
}

function residentMb(pids: readonly number[], field: 'Pss' | 'Rss'): number {
  const pattern = new RegExp(`^${field}:\\s+(\\d+)`, 'm');
  const kilobytes = pids.map((pid) =>
    Number(pattern.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1]),
  );
  return kilobytes.reduce((sum, each) => sum + each, 0) / 1_024;
}

function show(name: string, { perSecond, p50, p99 }: Latencies): void {
  console.log(
    `${name.padEnd(44)} ${perSecond.toFixed(0)}/s  p50 ${p50.toFixed(1)} ms  p99 ${p99.toFixed(1)} ms`,
  );
}

async function hostile(pool: SandboxPool, isOver: () => boolean): Promise<void> {
  while (!isOver()) await pool.run(request('mallory', 'module.exports = () => { for (;;); };', 10_000));
}

const startedAt = performance.now();
const pool = await createSandboxPool({ report: (event) => console.log(JSON.stringify(event)) });
console.log(`pool created in ${(performance.now() - startedAt).toFixed(0)} ms`);
while (pool.stats().spares < 2) await new Promise((resolve) => setTimeout(resolve, 20));
const { pids } = pool.stats();
console.log(
  `idle pool: ${pids.length} children, Rss ${residentMb(pids, 'Rss').toFixed(0)} MB, Pss ${residentMb(pids, 'Pss').toFixed(0)} MB`,
);
await measure(pool, connections);
show(`${connections} connections`, await measure(pool, connections));
show('1 connection', await measure(pool, 1));
let isOver = false;
const loops = Array.from({ length: connections }, () => hostile(pool, () => isOver));
await new Promise((resolve) => setTimeout(resolve, 1_000));
show('1 connection beside 8 of endless loops', await measure(pool, 1));
show(`${connections} connections beside 8 of endless loops`, await measure(pool, connections));
isOver = true;
await pool.close();
await Promise.all(loops);
