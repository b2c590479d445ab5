import { ExpressionsBusyError, UnavailableError } from '@token-vault/contracts';
import { createRequestContext, type RequestContext } from '@token-vault/operations';
import { beforeEach, describe, expect, it } from 'vitest';
import { createMissLimit, type MissCounter, type MissLimit } from '../src/index.ts';
import { createProcessCounter } from '../src/miss-counter.ts';
import { principalWith } from './tiny-app.ts';

let nowMs: number;
let statements: number;
let isLost: boolean;
let counter: MissCounter;

beforeEach(() => {
  [nowMs, statements, isLost] = [0, 0, false];
  const shared = createProcessCounter(() => nowMs);
  const counted = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    statements += 1;
    if (isLost) throw new UnavailableError('Postgres is lost.');
    return work();
  };
  counter = {
    take: (...asked) => counted(() => shared.take(...asked)),
    giveBack: (...given) => counted(() => shared.giveBack(...given)),
  };
});

const newProcess = (maxEntries?: number): MissLimit =>
  createMissLimit({ counter, nowMs: () => nowMs, ...(maxEntries !== undefined && { maxEntries }) });

function callerWith(limit?: number, applicationId = 'app'): RequestContext {
  const settings: Record<string, string> =
    limit === undefined ? {} : { data_misses_per_minute: String(limit) };
  const principal = principalWith({ applicationId, tenant: { id: 't', plan: 'standard', settings } });
  return createRequestContext({ principal, traceId: 'trace', now: new Date() });
}
const refused = { code: 'rate_limited' };

/** Counts tries one after another until one is refused. Gives the number that was counted. */
async function missUntilRefused(processes: readonly MissLimit[], caller: RequestContext): Promise<number> {
  for (let misses = 0; ; misses += 1) {
    const counted = await processes[misses % processes.length]?.count(caller, 1).catch(() => undefined);
    if (!counted) return misses;
  }
}

describe('tries of one application in several processes', () => {
  it.each([1, 2, 3, 15, 100])('are %d a minute together', async (limit) => {
    const one = newProcess();
    const misses = await missUntilRefused([one], callerWith(limit));
    expect(misses).toBe(limit);
    await expect(newProcess().count(callerWith(limit), 1)).rejects.toMatchObject(refused);
  });

  it('are no more than the limit by any of them, in whatever order they come', async () => {
    const processes = [newProcess(), newProcess(), newProcess()];
    const tries = processes.flatMap((each) =>
      Array.from({ length: 100 }, () => each.count(callerWith(100), 1)),
    );
    const admitted = (await Promise.allSettled(tries)).filter(({ status }) => status === 'fulfilled').length;
    const left = await Promise.all(processes.map((each) => missUntilRefused([each], callerWith(100))));
    expect(admitted + left.reduce((sum, each) => sum + each, 0)).toBe(100);
  });

  it('of another application, without a limit and of the system are not refused', async () => {
    await missUntilRefused([newProcess()], callerWith(2));
    await newProcess().count(callerWith(2, 'other'), 1);
    for (let n = 0; n < 5; n += 1) await newProcess().count(callerWith(0), 1);
    const { principal } = callerWith(2);
    const system = { ...callerWith(2), principal: { ...principal, actor: { kind: 'system', id: 's' } } };
    await newProcess().count(system as RequestContext, 1);
  });

  it('are refused until a minute after the first one', async () => {
    await newProcess().count(callerWith(1), 1);
    nowMs = 20_500;
    await expect(newProcess().count(callerWith(1), 1)).rejects.toMatchObject({ retryAfterSeconds: 40 });
    nowMs = 60_000;
    expect(await missUntilRefused([newProcess()], callerWith(1))).toBe(1);
  });

  it('are counted in the minute in which they are made, not in that of places that were left', async () => {
    const process = newProcess();
    await process.count(callerWith(100), 1);
    nowMs = 60_000;
    expect(await missUntilRefused([process], callerWith(100))).toBe(100);
  });

  it('go on in a process after its restart', async () => {
    const first = newProcess();
    for (let n = 0; n < 5; n += 1) await first.count(callerWith(9), 1);
    expect(await missUntilRefused([newProcess()], callerWith(9))).toBe(4);
  });
});

describe('the tries of one request', () => {
  it('are all admitted when there is room for one, in whatever process the room is', async () => {
    const [one, other] = [newProcess(), newProcess()];
    await one.count(callerWith(20), 19);
    await other.count(callerWith(20), 60);
    await expect(one.count(callerWith(20), 1)).rejects.toMatchObject(refused);
  });

  it('exceed the limit by one request of all processes, not by one of each', async () => {
    const processes = Array.from({ length: 5 }, () => newProcess());
    for (const each of processes) await each.count(callerWith(100), 1);
    const searches = processes.map((each) => each.count(callerWith(100), 70));
    expect((await Promise.allSettled(searches)).map(({ status }) => status)).toEqual([
      ...['fulfilled', 'fulfilled'],
      ...['rejected', 'rejected', 'rejected'],
    ]);
  });
});

describe('tries that found a value', () => {
  it('cost one statement a minute', async () => {
    const process = newProcess();
    for (let n = 0; n < 500; n += 1) await (await process.count(callerWith(), 1)).found(1);
    expect(statements).toBe(1);
  });

  it('take nothing from another process, also below a limit that has no tenth', async () => {
    const processes = [newProcess(), newProcess(), newProcess()];
    for (let n = 0; n < 9; n += 1) await (await processes[n % 3]?.count(callerWith(1), 1))?.found(1);
    expect(await missUntilRefused(processes, callerWith(1))).toBe(1);
  });

  it('give back what was found, no more', async () => {
    const process = newProcess();
    await (await process.count(callerWith(10), 7)).found(5);
    expect(await missUntilRefused([process, newProcess()], callerWith(10))).toBe(8);
  });

  it('are not lost when they come back while the process takes more', async () => {
    const process = newProcess();
    const ten = await process.count(callerWith(100), 10);
    await Promise.all([process.count(callerWith(100), 1), ten.found(1)]);
    expect(await missUntilRefused([process], callerWith(100))).toBe(90);
  });

  it('give nothing to the next minute', async () => {
    const process = newProcess();
    const counted = await process.count(callerWith(3), 3);
    nowMs = 60_000;
    await process.count(callerWith(3), 1);
    await counted.found(3);
    expect(await missUntilRefused([process], callerWith(3))).toBe(2);
  });

  it('stay counted when they cannot be given back', async () => {
    const process = newProcess();
    const counted = await process.count(callerWith(2), 1);
    isLost = true;
    await counted.found(1);
    isLost = false;
    expect(await missUntilRefused([process], callerWith(2))).toBe(1);
  });
});

it('misses cost less than half a statement each', async () => {
  const process = newProcess();
  for (let n = 0; n < 100; n += 1) await process.count(callerWith(), 1);
  expect(statements).toBeLessThan(50);
});

it('tries at the same time share a statement', async () => {
  const process = newProcess();
  await Promise.all(Array.from({ length: 10 }, () => process.count(callerWith(100), 1)));
  expect(statements).toBe(1);
});

it('a limit that was lowered in the minute counts what is there; a higher one has room', async () => {
  const process = newProcess();
  await process.count(callerWith(100), 4);
  await expect(process.count(callerWith(3), 1)).rejects.toMatchObject(refused);
  expect(await missUntilRefused([process], callerWith(6))).toBe(2);
  await process.count(callerWith(7), 1);
});

it('nothing is tried while the counter cannot be reached', async () => {
  isLost = true;
  const process = newProcess();
  let isEvaluated = false;
  const work = async () => void (isEvaluated = true);
  await expect(process.count(callerWith(), 1)).rejects.toThrow(UnavailableError);
  await expect(process.guess(callerWith(), () => true, work)).rejects.toThrow(UnavailableError);
  expect(isEvaluated).toBe(false);
  isLost = false;
  await process.count(callerWith(), 1);
});

it('an application that is dropped from memory goes on with its count', async () => {
  const process = newProcess(1);
  await process.count(callerWith(3), 2);
  await process.count(callerWith(3, 'other'), 1);
  expect(await missUntilRefused([process], callerWith(3))).toBe(1);
});

describe('an evaluation', () => {
  const miss = new Error('no value');
  const guess = (process: MissLimit, limit: number, found = false) =>
    process.guess(
      callerWith(limit),
      (error) => error === miss,
      async () => (found ? 'value' : Promise.reject(miss)),
    );

  it('that gives no value is a miss in all processes, and then no value is shown in any', async () => {
    const processes = [newProcess(), newProcess()] as const;
    for (let n = 0; n < 5; n += 1) expect(await guess(processes[0], 2, true)).toBe('value');
    await expect(guess(processes[0], 2)).rejects.toBe(miss);
    expect(await guess(processes[1], 2, true)).toBe('value');
    await expect(guess(processes[1], 2)).rejects.toBe(miss);
    for (const found of [true, false])
      for (const process of processes) await expect(guess(process, 2, found)).rejects.toMatchObject(refused);
  });

  it('shows no more errors and values than there is room, at the same time in several processes', async () => {
    const processes = [newProcess(), newProcess(), newProcess()] as const;
    const all = processes.flatMap((each) => Array.from({ length: 20 }, () => guess(each, 15)));
    const shown = (await Promise.allSettled(all)).filter(
      (each) => each.status === 'rejected' && each.reason === miss,
    );
    expect(shown).toHaveLength(15);
  });

  it('shows no value when the room ended while it ran', async () => {
    const process = newProcess();
    const beside = process.guess(
      callerWith(1),
      () => false,
      async () => void (await guess(process, 1).catch(() => undefined)),
    );
    await expect(beside).rejects.toMatchObject(refused);
  });

  it('that finds no worker is a miss: whether it needs one depends on the data', async () => {
    const process = newProcess();
    const busy = new ExpressionsBusyError('busy');
    const wait = () =>
      process.guess(
        callerWith(2),
        () => false,
        () => Promise.reject(busy),
      );
    await expect(wait()).rejects.toBe(busy);
    await expect(wait()).rejects.toBe(busy);
    await expect(wait()).rejects.toMatchObject(refused);
  });

  it('that fails for another reason is no miss', async () => {
    const broken = newProcess().guess(
      callerWith(1),
      () => false,
      () => Promise.reject(new Error('broken')),
    );
    await expect(broken).rejects.toThrow('broken');
    expect(await missUntilRefused([newProcess()], callerWith(1))).toBe(1);
  });
});
