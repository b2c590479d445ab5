import { spawn, type ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import { waitUntil } from '@token-vault/test-support';
import { afterEach, describe, expect, it } from 'vitest';
import { sandboxBundle } from '../src/sandbox/bundle.ts';
import { childCommand } from '../src/sandbox/child-command.ts';
import { defaultSandboxLimits } from '../src/sandbox/limits.ts';
import { createPriorities, type Priorities } from '../src/sandbox/priorities.ts';
import { Slots } from '../src/sandbox/slots.ts';
import type { ProcessUsage } from '../src/sandbox/usage-watch.ts';
import { noWalls } from '../src/sandbox/wall-kinds.ts';
import { findWallTools } from '../src/sandbox/walls.ts';
import { handler, mayRaisePriority } from './sandbox-pool-fixture.ts';

const ends: (() => unknown)[] = [];
afterEach(async () => {
  await Promise.all(ends.splice(0).map((end) => end()));
});

/** Records the calls in order and does nothing else. */
function recordingPriorities(calls: string[]): Priorities {
  const recording =
    <Result>(name: keyof Priorities, result: Result) =>
    (): Result => {
      calls.push(name);
      return result;
    };
  return {
    spare: recording('spare', undefined),
    hurried: recording('hurried', undefined),
    ready: recording('ready', undefined),
    awaited: recording('awaited', undefined),
    resting: recording('resting', undefined),
    working: recording('working', undefined),
    burning: recording('burning', undefined),
    endless: recording('endless', undefined),
    recovered: recording('recovered', true),
    revived: recording('revived', Promise.resolve(true)),
  };
}

/** A child without a run, with this usage at each check. */
async function idleChildThatUses(usage: readonly ProcessUsage[]) {
  const [bundle, limits] = [await sandboxBundle(), defaultSandboxLimits];
  let looks = 0;
  const slots = new Slots(
    {
      command: (account) => childCommand(bundle, limits, { walls: noWalls, tools: {}, account }),
      accounts: undefined,
      isAsleep: () => false,
      mostRssMb: 1_000,
      priorities: recordingPriorities([]),
      usageOf: () => usage[Math.min(looks++, usage.length - 1)],
    },
    bundle,
    limits,
    { onChange: () => {}, onLoss: () => {}, onStartFailures: () => {} },
  );
  ends.push(() => slots.close());
  slots.start(true);
  await slots.started();
  return { slots, looks: () => looks };
}

/** One child whose run has used `cpuMs` at each check, one value after the other. The run ends after the last. */
async function childThatUses(cpuMs: readonly number[]) {
  const calls: string[] = [];
  const [bundle, limits] = [await sandboxBundle(), defaultSandboxLimits];
  const looked = Promise.withResolvers<null>();
  let looks = 0;
  const slots = new Slots(
    {
      command: (account) => childCommand(bundle, limits, { walls: noWalls, tools: {}, account }),
      accounts: undefined,
      isAsleep: () => false,
      mostRssMb: 1_000,
      priorities: recordingPriorities(calls),
      usageOf: () => {
        if (slots.count(({ state }) => state === 'busy') === 0) return { cpuMs: 0, rssMb: 1, threads: 1 };
        const used = cpuMs[looks];
        looks += 1;
        if (looks > cpuMs.length) looked.resolve(null);
        return { cpuMs: used ?? cpuMs.at(-1) ?? 0, rssMb: 1, threads: 1 };
      },
    },
    bundle,
    limits,
    { onChange: () => {}, onLoss: () => {}, onStartFailures: () => {} },
  );
  ends.push(() => slots.close());
  const run = async (): Promise<void> => {
    const slot = slots.freshest(() => true);
    if (!slot) throw new Error('the child is not free');
    const outcome = await new Promise<{ readonly kind: string }>((settle) =>
      slots.execute(slot, {
        number: 1,
        tenantId: 'tenant',
        caller: 'app',
        purpose: 'run',
        code: handler("await req.svc.tokens.retrieve('any'); return {};"),
        input: JSON.stringify({ purpose: 'run', args: {}, configuration: {}, hasSvc: true }),
        timeoutMs: 60_000,
        hostCalls: { fetch: () => new Promise(() => {}), svc: () => looked.promise },
        queuedAt: 0,
        settle,
      }),
    );
    expect(outcome.kind).toBe('succeeded');
    await waitUntil(() => slot.state === 'free');
  };
  return { slots, calls, run };
}

describe('a child without a run', () => {
  const little: ProcessUsage = { cpuMs: 5_000, rssMb: 80, threads: 8 };
  it.each<[string, ProcessUsage]>([
    ['burns on', { ...little, cpuMs: 5_501 }],
    ['has more threads than Node makes', { ...little, threads: 33 }],
    ['holds more memory than the next run needs', { ...little, rssMb: 111 }],
  ])('is ended when it %s', async (_what, usage) => {
    const { slots } = await idleChildThatUses([little, usage]);
    await waitUntil(() => slots.size === 0);
  });

  it('stays when it makes its next isolate', async () => {
    const { slots, looks } = await idleChildThatUses([little, { ...little, cpuMs: 5_400 }]);
    await waitUntil(() => looks() > 3);
    expect(slots.size).toBe(1);
  });
});

describe.skipIf(process.platform !== 'linux')('a child', () => {
  it.each<[string, number[], string[]]>([
    ['takes little', [0, 25], []],
    ['takes longer than most', [0, 26], ['working']],
    ['burns', [0, 26, 101], ['working', 'burning', 'recovered']],
    ['burns without an end', [0, 26, 101, 1_001], ['working', 'burning', 'endless', 'revived']],
    ['uses processor time before it is checked', [0, 1_001], ['endless', 'revived']],
  ])(
    'whose run %s is preferred while a caller waits, by what it has used',
    async (_what, cpuMs, expected) => {
      const { slots, calls, run } = await childThatUses(cpuMs);
      slots.start(false);
      await slots.started();
      expect(calls.splice(0)).toEqual(['spare', 'ready', 'resting']);
      await run();
      expect(calls).toEqual(['awaited', ...expected, 'resting']);
    },
  );

  it('has its priority raised once when a caller waits for its start, and not as a spare that a caller took at its start', async () => {
    const { slots, calls } = await childThatUses([]);
    slots.start(true);
    expect(calls).toEqual([]);
    slots.hurry();
    expect(calls).toEqual(['hurried']);
    await slots.started();
    slots.hurry();
    expect(calls).toEqual(['hurried', 'ready', 'resting']);
  });
});

const below = (levels: number): number => Math.min(19, getPriority() + levels);

function sleeper(): number {
  const child: ChildProcess = spawn('sleep', ['600']);
  ends.push(() => child.kill('SIGKILL'));
  return child.pid ?? 0;
}

/** The scheduling policy of the process: 0 is normal, 5 runs only when a core is idle (sched(7)). */
function policyOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  // Field 41. The fields after the name in parentheses count from 3.
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[38]);
}

describe.skipIf(process.platform !== 'linux')('the priorities of a process', () => {
  it('prefer runs with a waiting caller, but not over the services', async () => {
    const pid = sleeper();
    const { chrt } = await findWallTools();
    const mayRaise = mayRaisePriority();
    const priorities = createPriorities(chrt);
    const levelAfter = (name: Exclude<keyof Priorities, 'revived'>): number => {
      priorities[name](pid);
      return getPriority(pid);
    };
    // Where the pool may not raise a priority, it changes none.
    expect(levelAfter('ready')).toBe(mayRaise ? 19 : below(10));
    expect(levelAfter('hurried')).toBe(below(10));
    expect(levelAfter('awaited')).toBe(below(mayRaise ? 3 : 10));
    expect(levelAfter('resting')).toBe(mayRaise ? 19 : below(10));
    expect(levelAfter('working')).toBe(below(10));
    expect(levelAfter('burning')).toBe(19);
    expect(priorities.recovered(pid)).toBe(mayRaise);
    expect(getPriority(pid)).toBe(mayRaise ? below(10) : 19);
    if (!mayRaise || chrt === undefined) return;
    priorities.burning(pid);
    priorities.endless(pid);
    await waitUntil(() => policyOf(pid) === 5);
    expect(await priorities.revived(pid)).toBe(true);
    expect([getPriority(pid), policyOf(pid)]).toEqual([below(10), 0]);
  });
});
