// Measures runs of one tenant beside endless loops of another, and the memory that the sandbox keeps when nothing runs.
import { execFileSync } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import flags from '../../scripts/node-flags.json' with { type: 'json' };
import type { Job, Summary } from './job.ts';
import { load, middle, setUpReactor } from './load.ts';
import { machineTimes, sandboxMemoryMb } from './processes.ts';
import { root, type Server } from './server.ts';

/** Longer than a loop may run (rules.md §10: 10 s), so that each measurement includes kills and new processes. */
const seconds = 12;
/** The loops of a tenant get half of the sandbox's processes. This is twice that number. */
const loopsAtOnce = 8;
/** Processes of tenants end after 30 s without work, checked each 7.5 s. */
const idleMs = 40_000;

export interface Neighbour {
  readonly connections: number;
  readonly alone: Summary;
  readonly beside: Summary;
  /** The ratio of the 99th percentiles, beside the loops and alone. */
  readonly factor: number;
  readonly stolen: number;
}

/** Creates a tenant of the running vault and gives its management key. */
export function createTenant(dataDir: string): string {
  const said = execFileSync(
    process.execPath,
    [...flags, 'standalone/src/cli.ts', 'tenants', 'create', 'Loops', '--plan', 'enterprise'],
    {
      cwd: root,
      env: { ...process.env, VAULT_DATA_DIR: dataDir },
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    },
  );
  const key = /management key:?\s+(\S+)/.exec(said)?.[1];
  if (key === undefined) throw new Error('no tenant was created');
  return key;
}

/** Runs `work` while eight callers run `loop` again and again. */
export async function whileLooping<Result>(
  loop: () => Promise<unknown>,
  work: () => Promise<Result>,
): Promise<Result> {
  let goesOn = true;
  const loops = Array.from({ length: loopsAtOnce }, async () => {
    while (goesOn) await loop();
  });
  await pause(2_000);
  const result = await work();
  goesOn = false;
  await Promise.all(loops);
  return result;
}

/** Alone and beside the loops in turn, so that both run on the same state of the machine. Medians. */
export async function measureNeighbour(
  server: Server,
  dataDir: string,
  job: Omit<Job, 'port' | 'seconds'>,
  rounds: number,
): Promise<Neighbour[]> {
  const { key, reactorId } = await setUpReactor(
    server,
    createTenant(dataDir),
    'module.exports = async () => { for (;;); };',
  );
  const react = () =>
    fetch(`http://127.0.0.1:${server.port}/reactors/${reactorId}/react`, {
      method: 'POST',
      headers: { 'SVC-API-KEY': key, 'Content-Type': 'application/json' },
      body: '{"args":{}}',
    }).then((response) => response.arrayBuffer());
  const results: Neighbour[] = [];
  for (const connections of [8, 1]) {
    const before = machineTimes();
    const alone: Summary[] = [];
    const beside: Summary[] = [];
    const run = () => load({ ...job, connections, seconds, port: server.port });
    for (let round = 0; round < rounds; round += 1) {
      alone.push(await run());
      beside.push(await whileLooping(react, run));
    }
    const after = machineTimes();
    const result = {
      connections,
      alone: middle(alone),
      beside: middle(beside),
      factor: middle(beside).p99Ms / middle(alone).p99Ms,
      stolen: (after.stolen - before.stolen) / Math.max(1, after.all - before.all),
    };
    process.stderr.write(`beside endless loops, ${connections}: p99 ×${result.factor.toFixed(2)}\n`);
    results.push(result);
  }
  return results;
}

export interface IdlePool {
  /** The memory of the processes that remain after work. */
  readonly afterWorkMb: number;
  readonly laterMb: number;
}

export async function measureIdlePool(server: Server): Promise<IdlePool> {
  await pause(2_000);
  const afterWorkMb = sandboxMemoryMb(server.pid);
  await pause(idleMs);
  return { afterWorkMb, laterMb: sandboxMemoryMb(server.pid) };
}
