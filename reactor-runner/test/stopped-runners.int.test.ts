import { KeyDestroyedError } from '@token-vault/crypto';
import { KeysNotStoredError, type EventStore } from '@token-vault/event-store';
import { fieldsOf, waitUntil } from '@token-vault/test-support';
import { describe, expect, it } from 'vitest';
import { historyFrom, type Invocation } from '../src/runs/invocation.ts';
import { failLostRun } from '../src/runs/lost.ts';
import { RunnerStoppedError } from '../src/runs/run.ts';
import type { RunOutcome } from '../src/sandbox/index.ts';
import { tenantId, useRunnerFixture, type RunnerFixture } from './runner-fixture.ts';

const console = { lines: [], truncated: false };
const hourMs = 3_600_000;

let fixture: RunnerFixture;
useRunnerFixture((made) => (fixture = made));

/** A sandbox whose run lasts until `end` is called. */
function slowSandbox(outcome: RunOutcome): () => void {
  let end = (): void => undefined;
  const ended = new Promise<void>((resolve) => (end = () => resolve()));
  fixture.sandbox = () => ended.then(() => outcome);
  return end;
}

describe('a draining runner', () => {
  it('lets claimed runs end, and claims no further ones', async () => {
    const end = slowSandbox({ kind: 'succeeded', result: { raw: 1 }, console });
    const [begun, queued] = [await fixture.invoke({}), await fixture.invoke({})];
    const claimed = Promise.withResolvers<void>();
    const runner = fixture.runner();
    const run = runner.handle(await fixture.historyOf(begun), claimed.resolve);
    await claimed.promise;
    runner.takeNoMore();
    await expect(runner.handle(await fixture.historyOf(queued))).rejects.toThrow(RunnerStoppedError);
    end();
    await run;
    expect(await fixture.typesOf(begun)).toEqual(['ReactorInvoked', 'ReactorStarted', 'ReactorSucceeded']);
    expect(await fixture.typesOf(queued)).toEqual(['ReactorInvoked']);
  });

  it('kills the remaining runs when it is stopped, and records their ends', async () => {
    fixture.sandbox = ({ signal }) =>
      new Promise((resolve) => signal?.addEventListener('abort', () => resolve({ kind: 'killed', console })));
    const invocation = await fixture.invoke({});
    const runner = fixture.runner();
    const run = runner.handle(await fixture.historyOf(invocation));
    await waitUntil(() => fixture.runs.length === 1);
    runner.takeNoMore();
    runner.stop();
    await run;
    expect(await fixture.typesOf(invocation)).toEqual(['ReactorInvoked', 'ReactorStarted', 'ReactorFailed']);
  });
});

describe('an asynchronous invocation', () => {
  const url = 'https://receiver.example/hook';

  it('is reported as claimed before its code ends; when it is killed before its outcome, its arguments are destroyed', async () => {
    const end = slowSandbox({ kind: 'succeeded', result: { raw: 1 }, console });
    const invocation = await fixture.invoke({}, url);
    const append: EventStore['append'] = (stream, events, ...others) =>
      events[0]?.type === 'ReactorSucceeded'
        ? Promise.reject(new Error('killed'))
        : fixture.store.append(stream, events, ...others);
    const claimed = Promise.withResolvers<void>();
    const runner = fixture.runner({ store: { ...fixture.store, append } });
    const run = runner.handle(await fixture.historyOf(invocation), claimed.resolve);
    await claimed.promise;
    expect(await fixture.typesOf(invocation)).toEqual(['ReactorInvoked', 'ReactorStarted']);
    end();
    await expect(run).rejects.toThrow('killed');
    await expect(fixture.open(invocation, 'args', invocation.invoked.args)).rejects.toThrow(
      KeyDestroyedError,
    );
    fixture.clock.advance(hourMs);
    await failLostRun(fixture, tenantId, invocation.id);
    expect(await fixture.typesOf(invocation)).toEqual(['ReactorInvoked', 'ReactorStarted', 'ReactorFailed']);
  });

  it('has its outcome although its arguments cannot be destroyed at that time; they are destroyed later', async () => {
    const invocation = await fixture.invoke({}, url);
    let isAway = true;
    const destroyKeys: typeof fixture.keyRing.destroyKeys = (...key) => {
      if (!isAway) return fixture.keyRing.destroyKeys(...key);
      isAway = false;
      return Promise.reject(new Error('away'));
    };
    const runner = fixture.runner({ keyRing: { ...fixture.keyRing, destroyKeys } });
    await runner.handle(await fixture.historyOf(invocation));
    expect(await fixture.typesOf(invocation)).toEqual([
      'ReactorInvoked',
      'ReactorStarted',
      'ReactorSucceeded',
    ]);
    await expect(fixture.open(invocation, 'args', invocation.invoked.args)).rejects.toThrow(
      KeyDestroyedError,
    );
  });
});

describe('a crash that takes the key of an outcome', () => {
  it('makes the runner seal it again', async () => {
    fixture.sandbox = () => Promise.resolve({ kind: 'succeeded', result: { raw: 'out' }, console });
    const invocation = await fixture.invoke({});
    const lost: string[] = [];
    const store: EventStore = {
      ...fixture.store,
      async append(...given) {
        const [, , , { keys = [] } = {}] = given;
        if (keys.length === 0 || lost.length === 2) return fixture.store.append(...given);
        lost.push(...keys);
        await fixture.keyRing.destroyKeys(tenantId, keys);
        throw new KeysNotStoredError();
      },
    };
    await fixture.runner({ store }).handle(await fixture.historyOf(invocation));
    expect(new Set(lost).size).toBe(2);
    expect(await fixture.typesOf(invocation)).toEqual([
      'ReactorInvoked',
      'ReactorStarted',
      'ReactorSucceeded',
    ]);
    const outcome = (await fixture.eventsOf(invocation)).at(-1);
    expect(await fixture.open(invocation, 'outcome', fieldsOf(outcome)['result'])).toEqual({ raw: 'out' });
  });
});

describe('a runner that is killed', () => {
  it('before it claimed the invocation leaves it to the next', async () => {
    const invocation = await fixture.invoke({});
    const store: EventStore = { ...fixture.store, append: () => Promise.reject(new Error('killed')) };
    await expect(fixture.runner({ store }).handle(await fixture.historyOf(invocation))).rejects.toThrow(
      'killed',
    );
    expect(fixture.runs).toEqual([]);
    await fixture.runner().handle(await fixture.historyOf(invocation));
    expect(fixture.runs).toHaveLength(1);
  });

  it('while code runs leaves a run that is not started again and fails once, at its deadline', async () => {
    const end = slowSandbox({ kind: 'succeeded', result: { tokenize: 'late' }, console });
    const invocation = await fixture.invoke({});
    const killed = fixture.runner().handle(await fixture.historyOf(invocation));
    await expect.poll(() => fixture.runs.length).toBe(1);
    await fixture.runner().handle(await fixture.historyOf(invocation));
    await fixture.runner().handle(historyFrom((await fixture.eventsOf(invocation))[0]!));
    expect(fixture.runs).toHaveLength(1);
    // The runner of the invocation may still need the arguments.
    expect(await fixture.open(invocation, 'args', invocation.invoked.args)).toEqual({});

    await failLostRun(fixture, tenantId, invocation.id);
    expect(await fixture.typesOf(invocation)).toEqual(['ReactorInvoked', 'ReactorStarted']);
    fixture.clock.advance(hourMs);
    await Promise.all(Array.from({ length: 4 }, () => failLostRun(fixture, tenantId, invocation.id)));
    expect(await fixture.typesOf(invocation)).toEqual(['ReactorInvoked', 'ReactorStarted', 'ReactorFailed']);
    await expect(fixture.open(invocation, 'args', invocation.invoked.args)).rejects.toThrow(
      KeyDestroyedError,
    );

    // The runner was slow, not dead. Its outcome comes too late.
    end();
    await killed;
    expect(await fixture.typesOf(invocation)).toEqual(['ReactorInvoked', 'ReactorStarted', 'ReactorFailed']);
    await failLostRun(fixture, tenantId, invocation.id);
    expect(await fixture.typesOf(invocation)).toHaveLength(3);
  });

  it.each([
    ['a broker', (it: Invocation) => fixture.historyOf(it)],
    ['the log', async (it: Invocation) => historyFrom((await fixture.eventsOf(it))[0]!)],
  ])('after the outcome leaves arguments that go with the next delivery by %s', async (_feed, again) => {
    const invocation = await fixture.invoke({});
    const keyRing = { ...fixture.keyRing, destroyKeys: () => Promise.reject(new Error('killed')) };
    await expect(fixture.runner({ keyRing }).handle(await fixture.historyOf(invocation))).rejects.toThrow(
      'killed',
    );
    expect(await fixture.open(invocation, 'args', invocation.invoked.args)).toEqual({});
    await fixture.runner().handle(await again(invocation));
    expect(fixture.runs).toHaveLength(1);
    expect(await fixture.typesOf(invocation)).toEqual([
      'ReactorInvoked',
      'ReactorStarted',
      'ReactorSucceeded',
    ]);
    await expect(fixture.open(invocation, 'args', invocation.invoked.args)).rejects.toThrow(
      KeyDestroyedError,
    );
  });
});
