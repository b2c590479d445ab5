import { fieldsOf, waitUntil } from '@token-vault/test-support';
import { DomainError, invocationPlace, newId, TokensRead, UnavailableError } from '@token-vault/contracts';
import { KeyDestroyedError, type SealedValue } from '@token-vault/crypto';
import { EventStoreUnavailableError, KeysNotStoredError, type EventStore } from '@token-vault/event-store';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { historyFrom, type Invocation } from '../src/runs/invocation.ts';
import { failLostRun } from '../src/runs/lost.ts';
import { RunnerStoppedError } from '../src/runs/run.ts';
import type { OpenTokens, VaultOperations } from '../src/runs/ports.ts';
import type { RunOutcome } from '../src/sandbox/index.ts';
import { createRunnerFixture, tenantId, type RunnerFixture } from './runner-fixture.ts';

const console = { lines: [], truncated: false };
const hourMs = 3_600_000;

let fixture: RunnerFixture;
beforeEach(async () => {
  fixture = await createRunnerFixture();
});
afterEach(() => fixture.close());

const typesOf = async (invocation: Invocation): Promise<string[]> =>
  (await fixture.eventsOf(invocation)).map(({ type }) => type);

/** A sandbox whose run lasts until `end` is called. */
function slowSandbox(outcome: RunOutcome): () => void {
  let end = (): void => undefined;
  const ended = new Promise<void>((resolve) => (end = () => resolve()));
  fixture.sandbox = () => ended.then(() => outcome);
  return end;
}

describe('an invocation', () => {
  it('is run by one of the runners that get it, and has one outcome', async () => {
    const invocation = await fixture.invoke({ n: 1 });
    const history = await fixture.historyOf(invocation);
    await Promise.all(Array.from({ length: 8 }, () => fixture.runner().handle(history)));
    expect(fixture.runs).toHaveLength(1);
    expect(await typesOf(invocation)).toEqual(['ReactorInvoked', 'ReactorStarted', 'ReactorSucceeded']);
  });

  it('gets its arguments and configuration; its result is sealed, its arguments are then unreadable', async () => {
    fixture.sandbox = () =>
      Promise.resolve({ kind: 'succeeded', result: { raw: 'out', tokenize: { a: 1 } }, console });
    const invocation = await fixture.invoke({ n: 1 });
    await fixture.runner().handle(await fixture.historyOf(invocation));
    expect(fixture.runs[0]).toMatchObject({ args: { n: 1 }, configuration: { KEY: 'value' }, hasSvc: false });
    expect(fixture.tokenized).toEqual([{ a: 1 }]);
    const outcome = (await fixture.eventsOf(invocation)).at(-1);
    expect(JSON.stringify(outcome?.data)).not.toContain('out"');
    expect(await fixture.open(invocation, 'outcome', fieldsOf(outcome)['result'])).toEqual({
      raw: 'out',
      tokens: 'token',
    });
    await expect(fixture.open(invocation, 'args', invocation.invoked.args)).rejects.toThrow(
      KeyDestroyedError,
    );
    fixture.clock.advance(hourMs + 1);
    await expect(fixture.open(invocation, 'outcome', fieldsOf(outcome)['result'])).rejects.toThrow(
      KeyDestroyedError,
    );
  });

  const tokenId = newId();
  const openTokens: OpenTokens = (_ids, context) => {
    const tokens = [{ token_id: tokenId, token_type: 'card', transform: 'reveal' as const }];
    const use = [context.event(TokensRead, { operation: 'use', tokens })];
    return Promise.resolve({ tokens: Promise.resolve(new Map()), use, madeAt: new Map() });
  };

  it('has the use of its tokens recorded with its claim, once, before its code begins', async () => {
    const invocation = await fixture.invoke({});
    const seen: string[][] = [];
    fixture.sandbox = async () => {
      seen.push(await typesOf(invocation));
      return { kind: 'succeeded', result: { raw: 1 }, console };
    };
    const history = await fixture.historyOf(invocation);
    await Promise.all([1, 2, 3].map(() => fixture.runner({ openTokens }).handle(history)));
    expect(seen).toEqual([['ReactorInvoked', 'ReactorStarted', 'TokensRead']]);
    const events = await fixture.eventsOf(invocation);
    expect(events.map(({ type }) => type)).toEqual([...seen[0]!, 'ReactorSucceeded']);
    expect(events[2]?.metadata).toMatchObject({ actor: invocation.metadata.actor });
  });

  it('seals with its outcome which tokens it was given: others may have their ids later', async () => {
    const createdAt = fixture.clock.now().toISOString();
    const given: OpenTokens = async (ids, context) => ({
      ...(await openTokens(ids, context)),
      madeAt: new Map([[tokenId, createdAt]]),
    });
    const invocation = await fixture.invoke({});
    await fixture.runner({ openTokens: given }).handle(await fixture.historyOf(invocation));
    const outcome = (await fixture.eventsOf(invocation)).at(-1);
    const place = invocationPlace(tenantId, invocation.id, 'outcome_with_tokens');
    const content = await fixture.keyRing.open(place, fieldsOf(outcome)['result'] as SealedValue);
    expect(content.expose()).toMatchObject({ seen: [], used: [{ id: tokenId, createdAt }] });
  });

  it('has that use recorded too when the tokens cannot be opened, and its code does not begin', async () => {
    const gone: OpenTokens = async (ids, context) => ({
      ...(await openTokens(ids, context)),
      tokens: Promise.reject(new DomainError('validation_failed', 'no')),
    });
    const invocation = await fixture.invoke({});
    await fixture.runner({ openTokens: gone }).handle(await fixture.historyOf(invocation));
    expect(fixture.runs).toEqual([]);
    const expected = ['ReactorInvoked', 'ReactorStarted', 'TokensRead', 'ReactorFailed'];
    expect(await typesOf(invocation)).toEqual(expected);
  });

  it('whose tokens cannot be recorded as used is not begun, and its code sees nothing', async () => {
    const invocation = await fixture.invoke({});
    const store: EventStore = {
      ...fixture.store,
      readStream: (...given) => fixture.store.readStream(...given),
      append: () => Promise.reject(new Error('refused')),
    };
    const handled = fixture.runner({ store, openTokens }).handle(await fixture.historyOf(invocation));
    await expect(handled).rejects.toThrow('refused');
    expect(fixture.runs).toEqual([]);
    expect(await typesOf(invocation)).toEqual(['ReactorInvoked']);
  });

  it('fails when its tokens cannot be opened, without its code having begun', async () => {
    const failing: OpenTokens = () => Promise.reject(new EventStoreUnavailableError('down'));
    const invocation = await fixture.invoke({});
    await fixture.runner({ openTokens: failing }).handle(await fixture.historyOf(invocation));
    expect(fixture.runs).toEqual([]);
    const outcome = (await fixture.eventsOf(invocation)).at(-1);
    expect(outcome).toMatchObject({ type: 'ReactorFailed', data: { status: 503, reason: 'unavailable' } });
  });

  it('of a deleted caller ends as Forbidden in the log, and its code does not begin', async () => {
    const invocation = await fixture.invoke({});
    const runner = fixture.runner({ findInvoker: () => Promise.resolve(undefined) });
    await runner.handle(await fixture.historyOf(invocation));
    expect(fixture.runs).toEqual([]);
    const events = await fixture.eventsOf(invocation);
    expect(events.slice(1)).toMatchObject([
      { type: 'ReactorStarted' },
      { type: 'AccessDenied', data: { entity_type: 'reactor' }, metadata: { actor: { id: 'app' } } },
      { type: 'ReactorFailed', data: { status: 403, reason: 'forbidden' } },
    ]);
    const problem = await fixture.open(invocation, 'outcome', fieldsOf(events.at(-1))['problem']);
    expect(problem).toMatchObject({ detail: 'Forbidden' });
  });

  it('waits unclaimed while the rights of its invoker are not known; a synchronous run fails', async () => {
    const findInvoker = () => Promise.reject(new UnavailableError('applications stand still'));
    const waiting = await fixture.invoke({}, 'https://receiver.example/hook');
    const handled = fixture.runner({ findInvoker }).handle(await fixture.historyOf(waiting));
    await expect(handled).rejects.toThrow(UnavailableError);
    expect(await typesOf(waiting)).toEqual(['ReactorInvoked']);
    const awaited = await fixture.invoke({});
    await fixture.runner({ findInvoker }).handle(await fixture.historyOf(awaited));
    expect((await fixture.eventsOf(awaited)).at(-1)?.data).toMatchObject({ status: 503 });
    expect(fixture.runs).toEqual([]);
  });

  it('has one outcome when the store stores an append and does not answer', async () => {
    const invocation = await fixture.invoke({});
    let failures = 2;
    const store: EventStore = {
      ...fixture.store,
      readStream: (...given) => fixture.store.readStream(...given),
      async append(...given) {
        const result = await fixture.store.append(...given);
        failures -= 1;
        if (failures >= 0) throw new EventStoreUnavailableError('no answer');
        return result;
      },
    };
    await fixture.runner({ store }).handle(await fixture.historyOf(invocation));
    expect(fixture.runs).toHaveLength(1);
    expect(await typesOf(invocation)).toEqual(['ReactorInvoked', 'ReactorStarted', 'ReactorSucceeded']);
  });
});

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
    expect(await typesOf(begun)).toEqual(['ReactorInvoked', 'ReactorStarted', 'ReactorSucceeded']);
    expect(await typesOf(queued)).toEqual(['ReactorInvoked']);
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
    expect(await typesOf(invocation)).toEqual(['ReactorInvoked', 'ReactorStarted', 'ReactorFailed']);
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
    expect(await typesOf(invocation)).toEqual(['ReactorInvoked', 'ReactorStarted']);
    end();
    await expect(run).rejects.toThrow('killed');
    await expect(fixture.open(invocation, 'args', invocation.invoked.args)).rejects.toThrow(
      KeyDestroyedError,
    );
    fixture.clock.advance(hourMs);
    await failLostRun(fixture, tenantId, invocation.id);
    expect(await typesOf(invocation)).toEqual(['ReactorInvoked', 'ReactorStarted', 'ReactorFailed']);
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
    expect(await typesOf(invocation)).toEqual(['ReactorInvoked', 'ReactorStarted', 'ReactorSucceeded']);
    await expect(fixture.open(invocation, 'args', invocation.invoked.args)).rejects.toThrow(
      KeyDestroyedError,
    );
  });
});

describe('the outcome of a run whose code was shown a cvc', () => {
  const minuteMs = 60_000;
  const raw = { kind: 'succeeded', result: { raw: 'out' }, console } as const;
  const inMinutes = (minutes: number): string =>
    new Date(fixture.clock.now().getTime() + minutes * minuteMs).toISOString();
  const argumentsWith =
    (cvcEndsAt: string): OpenTokens =>
    () =>
      Promise.resolve({ tokens: Promise.resolve(new Map()), use: [], madeAt: new Map(), cvcEndsAt });
  /** Tokenized output and answers of `req.svc` report their tokens in the same way. */
  const outputWith = (...ends: readonly (string | undefined)[]): VaultOperations => ({
    asApplication: () => Promise.reject(new Error('not in this test')),
    tokenize(_payload, _invoker, { onTokens }) {
      onTokens(ends.map((cvcEndsAt, index) => ({ id: `tok_${index}`, cvcEndsAt })));
      return Promise.resolve('made');
    },
  });

  async function expectToEndAfter(invocation: Invocation, minutes: number): Promise<void> {
    const data = fieldsOf((await fixture.eventsOf(invocation)).at(-1));
    const opened = () => fixture.open(invocation, 'outcome', data['result'] ?? data['problem']);
    expect(data['cvc_ends_at']).toBe(inMinutes(minutes));
    fixture.clock.advance(minutes * minuteMs - 1);
    await opened();
    fixture.clock.advance(1);
    await expect(opened()).rejects.toThrow(KeyDestroyedError);
  }

  it.each([undefined, 'https://example.com/hook'])('ends with the cvc of an argument (%s)', async (hook) => {
    fixture.sandbox = () => Promise.resolve(raw);
    const invocation = await fixture.invoke({}, hook);
    const openTokens = argumentsWith(inMinutes(10));
    await fixture.runner({ openTokens }).handle(await fixture.historyOf(invocation));
    await expectToEndAfter(invocation, 10);
  });

  it('ends with the earliest cvc that its code was shown', async () => {
    fixture.sandbox = () => Promise.resolve({ ...raw, result: { tokenize: {} } });
    const invocation = await fixture.invoke({}, 'https://example.com/hook');
    const openTokens = argumentsWith(inMinutes(30));
    const operations = outputWith(inMinutes(20), undefined, inMinutes(40));
    await fixture.runner({ openTokens, operations }).handle(await fixture.historyOf(invocation));
    await expectToEndAfter(invocation, 20);
  });

  it('ends with the cvc when the run failed', async () => {
    fixture.sandbox = () => Promise.reject(new DomainError('validation_failed', 'may quote it'));
    const invocation = await fixture.invoke({});
    const openTokens = argumentsWith(inMinutes(10));
    await fixture.runner({ openTokens }).handle(await fixture.historyOf(invocation));
    await expectToEndAfter(invocation, 10);
  });

  it('ends with the cvc when it is sealed again', async () => {
    fixture.sandbox = () => Promise.resolve(raw);
    const invocation = await fixture.invoke({});
    let isLost = false;
    const store: EventStore = {
      ...fixture.store,
      async append(...given) {
        const [, , , { keys = [] } = {}] = given;
        if (keys.length === 0 || isLost) return fixture.store.append(...given);
        isLost = true;
        throw new KeysNotStoredError();
      },
    };
    const openTokens = argumentsWith(inMinutes(10));
    await fixture.runner({ store, openTokens }).handle(await fixture.historyOf(invocation));
    await expectToEndAfter(invocation, 10);
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
    expect(await typesOf(invocation)).toEqual(['ReactorInvoked', 'ReactorStarted', 'ReactorSucceeded']);
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
    expect(await typesOf(invocation)).toEqual(['ReactorInvoked', 'ReactorStarted']);
    fixture.clock.advance(hourMs);
    await Promise.all(Array.from({ length: 4 }, () => failLostRun(fixture, tenantId, invocation.id)));
    expect(await typesOf(invocation)).toEqual(['ReactorInvoked', 'ReactorStarted', 'ReactorFailed']);
    await expect(fixture.open(invocation, 'args', invocation.invoked.args)).rejects.toThrow(
      KeyDestroyedError,
    );

    // The runner was slow, not dead. Its outcome comes too late.
    end();
    await killed;
    expect(await typesOf(invocation)).toEqual(['ReactorInvoked', 'ReactorStarted', 'ReactorFailed']);
    await failLostRun(fixture, tenantId, invocation.id);
    expect(await typesOf(invocation)).toHaveLength(3);
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
    expect(await typesOf(invocation)).toEqual(['ReactorInvoked', 'ReactorStarted', 'ReactorSucceeded']);
    await expect(fixture.open(invocation, 'args', invocation.invoked.args)).rejects.toThrow(
      KeyDestroyedError,
    );
  });
});
