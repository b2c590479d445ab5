import { PresentTenants, type Holder } from '@token-vault/batching';
import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { UnavailableError } from '@token-vault/contracts';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { RequestTurns, type Turn } from '../src/request-turns.ts';

let nowMs: number;
let turns: RequestTurns;
/** The applications that do not read their answers, as `tenant/name`. */
let unread: string[];
let running: { readonly tenant: string; readonly turn: Turn }[];
const order = () => running.map(({ tenant }) => tenant);
const countOf = (tenant: string) => order().filter((each) => each === tenant).length;

/** A response of which only the end of its connection is used. */
const responseOf = () => new EventEmitter() as ServerResponse;

/** `caller`: a tenant, or an application as `tenant/name`. */
function arrive(caller: string, response = responseOf()): Promise<void> {
  const turn = turns.of(response);
  const [tenantId = '', applicationId = 'application'] = caller.split('/');
  return turn.begin({ tenantId, applicationId }).then(() => void running.push({ tenant: caller, turn }));
}

async function arriveMany(caller: string, count: number): Promise<void> {
  for (let index = 0; index < count; index += 1) void arrive(caller).catch(() => undefined);
  await nextTurn();
}

/** Ends the oldest running request of the tenant. */
async function end(tenant: string): Promise<void> {
  const index = running.findIndex((each) => each.tenant === tenant);
  running.splice(index, 1)[0]?.turn.end();
  await nextTurn();
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  nowMs = 1_000_000;
  running = [];
  unread = [];
  const requireRead = ({ tenantId, applicationId }: Holder) => {
    if (unread.includes(`${tenantId}/${applicationId}`)) throw new UnavailableError('unread');
  };
  turns = new RequestTurns({ present: new PresentTenants(() => nowMs), inFlight: { requireRead } });
});
afterEach(() => vi.useRealTimers());

describe('the requests of a tenant', () => {
  it('run 64 at a time when it is alone, in their order', async () => {
    await arriveMany('greedy', 1_000);
    expect([running.length, turns.waiting]).toEqual([64, 936]);
    await end('greedy');
    expect([running.length, turns.waiting]).toEqual([64, 935]);
  });

  it('let a request of another tenant run after at most one of them', async () => {
    await arriveMany('greedy', 1_000);
    await arriveMany('neighbour', 1);
    await end('greedy');
    expect(order().at(-1)).toBe('neighbour');
  });

  it('are at most eight beside another tenant with few requests', async () => {
    await arriveMany('greedy', 1_000);
    await arriveMany('neighbour', 8);
    for (let ended = 0; ended < 64; ended += 1) await end('greedy');
    expect([countOf('greedy'), countOf('neighbour')]).toEqual([8, 8]);
  });

  it('are as many as those of the other tenants together, when these are more', async () => {
    await arriveMany('one', 10);
    await arriveMany('two', 10);
    await arriveMany('greedy', 1_000);
    expect(countOf('greedy')).toBe(20);
  });

  it('are taken in turns when all places are taken', async () => {
    await arriveMany('first', 1_000);
    await arriveMany('second', 1_000);
    await arriveMany('third', 1_000);
    for (let ended = 0; ended < 6; ended += 1) await end('first');
    expect(order().slice(-6)).toEqual(['first', 'second', 'third', 'first', 'second', 'third']);
  });

  it('stay few while another tenant reads an answer, and are many again afterwards', async () => {
    await arriveMany('neighbour', 1);
    await arriveMany('greedy', 1_000);
    await end('neighbour');
    nowMs += 99;
    await end('greedy');
    expect(countOf('greedy')).toBe(8);
    nowMs += 1;
    await end('greedy');
    expect(countOf('greedy')).toBe(64);
  });

  it('are not counted any more after 2 s', async () => {
    await arriveMany('greedy', 128);
    expect(running.length).toBe(64);
    vi.advanceTimersByTime(2_000);
    await nextTurn();
    expect(running.length).toBe(128);
    // Requests that no longer hold a place release none.
    for (let ended = 0; ended < 64; ended += 1) await end('greedy');
    await arriveMany('greedy', 1);
    expect([running.length, turns.waiting]).toEqual([64, 1]);
  });

  it('do not run when the client has disconnected meanwhile, and occupy no place', async () => {
    await arriveMany('greedy', 64);
    const response = responseOf();
    const gone = arrive('greedy', response);
    response.emit('close');
    await expect(gone).rejects.toThrow('the client disconnected');
    expect(turns.waiting).toBe(0);
    for (let ended = 0; ended < 64; ended += 1) await end('greedy');
    await arriveMany('greedy', 64);
    expect(running.length).toBe(64);
  });

  it('are refused when 2,000 of them wait, and those of others are not', async () => {
    await arriveMany('greedy', 2_064);
    await expect(arrive('greedy')).rejects.toThrow(UnavailableError);
    await arriveMany('neighbour', 1);
    await end('greedy');
    expect(order().at(-1)).toBe('neighbour');
  });
});

describe('an application', () => {
  it('waits for one request of each other one of its tenant, however many that one sends', async () => {
    await arriveMany('one/greedy', 1_000);
    await arriveMany('one/other', 2);
    for (let ended = 0; ended < 4; ended += 1) await end('one/greedy');
    expect(order().slice(-4)).toEqual(['one/greedy', 'one/other', 'one/greedy', 'one/other']);
  });

  it('may have 2,000 requests that wait, beside which those of others of its tenant find room', async () => {
    await arriveMany('one/greedy', 2_064);
    await expect(arrive('one/greedy')).rejects.toThrow(UnavailableError);
    await arriveMany('one/other', 1_000);
    expect(turns.waiting).toBe(3_000);
  });
});

describe('requests of an application that does not read its answers', () => {
  it('are refused when their turn comes, and leave their places to others', async () => {
    const refused: unknown[] = [];
    await arriveMany('greedy', 64);
    for (let count = 0; count < 100; count += 1)
      arrive('greedy').catch((error: unknown) => refused.push(error));
    void arrive('greedy/other');
    unread.push('greedy/application');
    await end('greedy');
    expect([refused.length, order().at(-1)]).toEqual([1, 'greedy/other']);
    await end('greedy');
    expect([refused.length, turns.waiting]).toEqual([100, 0]);
    expect(refused[0]).toBeInstanceOf(UnavailableError);
  });
});

describe('a request that waits out of its turn', () => {
  let over: PromiseWithResolvers<string>;
  /** Its wait, and what it does when it goes on. */
  let waiting: Promise<unknown>;

  beforeEach(() => {
    over = Promise.withResolvers();
  });

  async function wait({ turn }: { readonly turn: Turn }): Promise<void> {
    waiting = turn.outOfTurn(() => over.promise);
    waiting.catch(() => undefined);
    await nextTurn();
    await nextTurn();
  }

  it('gives its place to another one, and goes on when it has a place again', async () => {
    await arriveMany('greedy', 65);
    await wait(running[0]!);
    expect([running.length, turns.waiting]).toEqual([65, 0]);
    over.resolve('reached');
    await nextTurn();
    expect(turns.waiting).toBe(1);
    running[1]!.turn.end();
    expect(await waiting).toBe('reached');
    await arriveMany('greedy', 1);
    expect(turns.waiting).toBe(1);
  });

  it('keeps its place when the wait is over at once', async () => {
    await arriveMany('greedy', 65);
    over.resolve('reached');
    await wait(running[0]!);
    expect(await waiting).toBe('reached');
    expect([running.length, turns.waiting]).toEqual([64, 1]);
  });

  it('takes no place after an error, nor when it has ended', async () => {
    await arriveMany('greedy', 64);
    await wait(running[0]!);
    over.reject(new Error('late'));
    await expect(waiting).rejects.toThrow('late');
    over = Promise.withResolvers();
    await wait(running[1]!);
    running[1]!.turn.end();
    over.resolve('reached');
    await waiting;
    await arriveMany('greedy', 3);
    expect([running.length, turns.waiting]).toEqual([66, 1]);
  });

  it('has one place again, however many of its parts wait', async () => {
    await arriveMany('greedy', 64);
    await Promise.all([wait(running[0]!), wait(running[0]!)]);
    over.resolve('reached');
    await waiting;
    await nextTurn();
    await arriveMany('greedy', 1);
    expect([running.length, turns.waiting]).toEqual([64, 1]);
    running[0]!.turn.end();
    await arriveMany('greedy', 1);
    expect([running.length, turns.waiting]).toEqual([65, 1]);
  });

  it('is refused when 2,000 of its application wait so, and those of others are not', async () => {
    for (let count = 0; count < 2_000; count += 1) {
      await arriveMany('greedy', 1);
      void running.at(-1)!.turn.outOfTurn(() => over.promise);
      await nextTurn();
    }
    await arriveMany('greedy', 1);
    await wait(running.at(-1)!);
    await expect(waiting).rejects.toThrow(UnavailableError);
    const begun = vi.fn(() => over.promise);
    for (const other of ['greedy/other', 'neighbour']) {
      await arriveMany(other, 1);
      void running.at(-1)!.turn.outOfTurn(begun);
    }
    expect(begun).toHaveBeenCalledTimes(2);
  });

  it('makes room for the next one of its application when it is over, reached or not', async () => {
    const [reached, late] = [Promise.withResolvers<string>(), Promise.withResolvers<string>()];
    const isRefused = async (wait = over.promise): Promise<boolean> => {
      await arriveMany('greedy', 1);
      const waits = running.at(-1)!.turn.outOfTurn(() => wait);
      const isOver = waits.then(
        () => false,
        (error: unknown) => error instanceof UnavailableError,
      );
      await nextTurn();
      return Promise.race([isOver, nextTurn(false)]);
    };
    for (const wait of [reached.promise, late.promise]) await isRefused(wait);
    for (let count = 2; count < 2_000; count += 1) expect(await isRefused()).toBe(false);
    expect(await isRefused()).toBe(true);
    reached.resolve('reached');
    expect([await isRefused(), await isRefused()]).toEqual([false, true]);
    late.reject(new Error('late'));
    expect([await isRefused(), await isRefused()]).toEqual([false, true]);
  });
});

describe('a tenant', () => {
  it('is alone when no other one has, wants or just had places', async () => {
    await arriveMany('greedy', 1_000);
    expect(turns.isAlone('greedy')).toBe(true);
    expect(turns.isAlone('neighbour')).toBe(false);
    await arriveMany('neighbour', 1);
    expect(turns.isAlone('greedy')).toBe(false);
    await end('greedy');
    await end('neighbour');
    expect(turns.isAlone('greedy')).toBe(false);
    nowMs += 100;
    expect(turns.isAlone('greedy')).toBe(true);
  });
});
