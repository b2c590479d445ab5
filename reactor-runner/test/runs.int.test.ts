import { fieldsOf, isCollected } from '@token-vault/test-support';
import { DomainError, invocationPlace, newId, TokensRead, UnavailableError } from '@token-vault/contracts';
import { KeyDestroyedError, type SealedValue } from '@token-vault/crypto';
import { EventStoreUnavailableError, type EventStore } from '@token-vault/event-store';
import { describe, expect, it } from 'vitest';
import type { OpenTokens } from '../src/runs/ports.ts';
import { tenantId, useRunnerFixture, type RunnerFixture } from './runner-fixture.ts';

const console = { lines: [], truncated: false };
const hourMs = 3_600_000;

let fixture: RunnerFixture;
useRunnerFixture((made) => (fixture = made));

describe('an invocation', () => {
  it('is run by one of the runners that get it, and has one outcome', async () => {
    const invocation = await fixture.invoke({ n: 1 });
    const history = await fixture.historyOf(invocation);
    await Promise.all(Array.from({ length: 8 }, () => fixture.runner().handle(history)));
    expect(fixture.runs).toHaveLength(1);
    expect(await fixture.typesOf(invocation)).toEqual([
      'ReactorInvoked',
      'ReactorStarted',
      'ReactorSucceeded',
    ]);
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
  const openTokens: OpenTokens = async (_ids, context, make) => {
    const tokens = [{ token_id: tokenId, token_type: 'card', transform: 'reveal' as const }];
    const use = [context.event(TokensRead, { operation: 'use', tokens })];
    return { made: make(new Map()), use, madeAt: new Map() };
  };

  it('has the use of its tokens recorded with its claim, once, before its code begins', async () => {
    const invocation = await fixture.invoke({});
    const seen: string[][] = [];
    fixture.sandbox = async () => {
      seen.push(await fixture.typesOf(invocation));
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
    const given: OpenTokens = async (ids, context, make) => ({
      ...(await openTokens(ids, context, make)),
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
    const gone: OpenTokens = async (ids, context, make) => ({
      ...(await openTokens(ids, context, make)),
      made: Promise.reject(new DomainError('validation_failed', 'no')),
    });
    const invocation = await fixture.invoke({});
    await fixture.runner({ openTokens: gone }).handle(await fixture.historyOf(invocation));
    expect(fixture.runs).toEqual([]);
    const expected = ['ReactorInvoked', 'ReactorStarted', 'TokensRead', 'ReactorFailed'];
    expect(await fixture.typesOf(invocation)).toEqual(expected);
  });

  it('does not hold the data of its tokens while its code runs', async () => {
    const given: WeakRef<object>[] = [];
    const weakly: OpenTokens = (ids, context, make) =>
      openTokens(ids, context, () => {
        const tokens = new Map();
        given.push(new WeakRef(tokens));
        return make(tokens);
      });
    const collected: boolean[] = [];
    fixture.sandbox = async () => {
      collected.push(...(await Promise.all(given.map(isCollected))));
      return { kind: 'succeeded', result: { raw: 1 }, console };
    };
    const invocation = await fixture.invoke({});
    await fixture.runner({ openTokens: weakly }).handle(await fixture.historyOf(invocation));
    expect(collected).toEqual([true]);
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
    expect(await fixture.typesOf(invocation)).toEqual(['ReactorInvoked']);
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
    expect(await fixture.typesOf(waiting)).toEqual(['ReactorInvoked']);
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
    expect(await fixture.typesOf(invocation)).toEqual([
      'ReactorInvoked',
      'ReactorStarted',
      'ReactorSucceeded',
    ]);
  });
});
