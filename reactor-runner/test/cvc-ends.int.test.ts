import { DomainError, newId, type ParentRun } from '@token-vault/contracts';
import { KeyDestroyedError } from '@token-vault/crypto';
import { KeysNotStoredError, type EventStore } from '@token-vault/event-store';
import { fieldsOf } from '@token-vault/test-support';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Invocation } from '../src/runs/invocation.ts';
import type { OpenTokens, VaultOperations } from '../src/runs/ports.ts';
import type { RunDependencies } from '../src/runs/run.ts';
import { Deliveries } from '../src/webhooks/deliver.ts';
import {
  invoker,
  noLimit,
  nothingSeen,
  tenantId,
  useRunnerFixture,
  type RunnerFixture,
} from './runner-fixture.ts';

const minuteMs = 60_000;
const tenMinutesMs = 10 * minuteMs;
const console = { lines: [], truncated: false };
const url = 'https://receiver.example/hook';
const answered = { status: 500, statusText: '', headers: [], body: new Uint8Array(), url, redirected: false };

let fixture: RunnerFixture;
useRunnerFixture((made) => (fixture = made));
let end: string;
beforeEach(() => {
  end = inMinutes(10);
});

const inMinutes = (minutes: number): string =>
  new Date(fixture.clock.now().getTime() + minutes * minuteMs).toISOString();

/** A run whose code was given a cvc and asked for another run. */
const outer = (cvcEndsAt: string | undefined): ParentRun => ({
  actor: { kind: 'application', id: 'app' },
  since: fixture.clock.now().toISOString(),
  tokenIds: [],
  owner: { reactorId: newId(), revision: 0 },
  seen: [],
  isSeenComplete: true,
  cvcEndsAt,
});

const argumentWithCvc =
  (cvcEndsAt = end): OpenTokens =>
  async (_ids, _context, make) => ({ made: make(new Map()), use: [], madeAt: new Map(), cvcEndsAt });

const succeeds = () => {
  fixture.sandbox = () => Promise.resolve({ kind: 'succeeded', result: { raw: 'out' }, console });
};

/** Expects that the outcome can be opened until `cvcEndsAt` only. @returns its content */
async function expectToEndAt(invocation: Invocation, cvcEndsAt: string): Promise<unknown> {
  const data = fieldsOf((await fixture.eventsOf(invocation)).at(-1));
  const opened = () => fixture.open(invocation, 'outcome', data['result'] ?? data['problem']);
  expect(data['cvc_ends_at']).toBe(cvcEndsAt);
  fixture.clock.set(new Date(Date.parse(cvcEndsAt) - 1));
  const held = await opened();
  fixture.clock.advance(1);
  await expect(opened()).rejects.toThrow(KeyDestroyedError);
  return held;
}

describe('the result of a run that code asked for', () => {
  it.each([undefined, url])('ends with the first cvc of the runs that it is nested in (%s)', async (hook) => {
    succeeds();
    const later = new Date(Date.parse(end) + 1).toISOString();
    const invocation = await fixture.invoke({}, hook, {
      parents: [outer(end), outer(undefined), outer(later)],
    });
    await fixture.runner().handle(await fixture.historyOf(invocation));
    expect(await expectToEndAt(invocation, end)).toEqual({ raw: 'out' });
  });

  it('is not delivered after that end; it is when no end is known', async () => {
    succeeds();
    const sent: string[] = [];
    const deliveries = new Deliveries({
      ...fixture,
      findInvoker: async (ofTenant, actor) => invoker(ofTenant, actor),
      decisionOnUse: async () => () => undefined,
      refuseOwner: async () => undefined,
      decisionOnSeen: nothingSeen,
      async fetch(request) {
        await request.permit?.();
        sent.push(Buffer.from(request.body ?? '').toString());
        return answered;
      },
    });
    const countOf = async (cvcEndsAt: string | undefined) => {
      sent.length = 0;
      const { id } = await fixture
        .invoke({}, url, { parents: [outer(cvcEndsAt)] })
        .then(async (invocation) => {
          await fixture.runner().handle(await fixture.historyOf(invocation));
          return invocation;
        });
      await deliveries.deliver(tenantId, id, noLimit);
      fixture.clock.advance(tenMinutesMs);
      await deliveries.deliver(tenantId, id, noLimit);
      return sent.length;
    };
    expect([await countOf(end), await countOf(undefined)]).toEqual([1, 2]);
  });
});

describe('a delivery of a result that may hold a cvc', () => {
  /** What is sent when the cvc ends while the tokens of the run are read for the nth time. */
  async function sentWhen(nth: number): Promise<readonly string[]> {
    succeeds();
    const invocation = await fixture.invoke({}, url);
    await fixture.runner({ openTokens: argumentWithCvc() }).handle(await fixture.historyOf(invocation));
    const sent: string[] = [];
    let readings = 0;
    const deliveries = new Deliveries({
      ...fixture,
      findInvoker: async (ofTenant, actor) => invoker(ofTenant, actor),
      decisionOnUse: async () => () => undefined,
      refuseOwner: async () => undefined,
      async decisionOnSeen(...asked) {
        readings += 1;
        if (readings === nth) fixture.clock.set(new Date(end));
        return nothingSeen(...asked);
      },
      async fetch(request) {
        await request.permit?.();
        sent.push(Buffer.from(request.body ?? '').toString());
        return { ...answered, status: 200 };
      },
    });
    await deliveries.deliver(tenantId, invocation.id, noLimit);
    return sent;
  }

  it('is refused when the cvc ends while the tokens of the run are read, before the connection or once it is there', async () => {
    expect(await sentWhen(3)).toEqual(['{"raw":"out"}']);
    for (const nth of [1, 2]) {
      fixture.clock.set(new Date(Date.parse(end) - tenMinutesMs));
      const [sent, ...more] = await sentWhen(nth);
      expect(more).toEqual([]);
      expect(JSON.parse(sent ?? '')).toMatchObject({ status: 403 });
    }
  });
});

describe('code that was given a cvc', () => {
  /** Runs code that sends a request `ms` after its begin. Gives the number of requests that were sent. */
  async function sentAfter(ms: number, parents: readonly ParentRun[], changes: Partial<RunDependencies>) {
    let sent = 0;
    fixture.sandbox = async ({ hostCalls }) => {
      fixture.clock.advance(ms);
      await hostCalls.fetch?.({ url, method: 'POST', headers: [], body: new Uint8Array() });
      return { kind: 'succeeded', result: { tokenize: {} }, console };
    };
    const invocation = await fixture.invoke({}, undefined, { parents });
    const runner = fixture.runner({
      async fetch({ permit }) {
        await permit?.();
        sent += 1;
        return answered;
      },
      ...changes,
    });
    await runner.handle(await fixture.historyOf(invocation));
    return { sent, outcome: (await fixture.eventsOf(invocation)).at(-1) };
  }

  it.each<[string, () => { parents?: readonly ParentRun[]; changes?: Partial<RunDependencies> }]>([
    ['in its arguments', () => ({ changes: { openTokens: argumentWithCvc() } })],
    ['by the code that asked for its run', () => ({ parents: [outer(end)] })],
  ])('%s sends nothing after its end', async (_name, given) => {
    const { parents = [], changes = {} } = given();
    expect(await sentAfter(tenMinutesMs - 1, parents, changes)).toMatchObject({ sent: 1 });
    fixture.clock.set(new Date(Date.parse(end) - tenMinutesMs));
    expect(await sentAfter(tenMinutesMs, parents, changes)).toMatchObject({
      sent: 0,
      outcome: { type: 'ReactorFailed', data: { status: 403 } },
    });
  });

  it('does not begin when the cvc of the code that asked for it has ended', async () => {
    fixture.clock.advance(tenMinutesMs);
    const { outcome } = await sentAfter(0, [outer(end)], {});
    expect(outcome).toMatchObject({ type: 'ReactorFailed', data: { status: 403 } });
    expect(fixture.runs).toEqual([]);
  });
});

describe('the outcome of a run whose code was shown a cvc', () => {
  /** Tokenized output and answers of `req.svc` report their tokens in the same way. */
  const outputWith = (...ends: readonly (string | undefined)[]): VaultOperations => ({
    asApplication: () => Promise.reject(new Error('not in this test')),
    tokenize(_payload, _invoker, { onTokens }) {
      onTokens(ends.map((cvcEndsAt, index) => ({ id: `tok_${index}`, cvcEndsAt })));
      return Promise.resolve('made');
    },
  });

  it.each([undefined, url])('ends with the cvc of an argument (%s)', async (hook) => {
    succeeds();
    const invocation = await fixture.invoke({}, hook);
    const openTokens = argumentWithCvc();
    await fixture.runner({ openTokens }).handle(await fixture.historyOf(invocation));
    await expectToEndAt(invocation, end);
  });

  it('ends with the earliest cvc that its code was shown', async () => {
    fixture.sandbox = () => Promise.resolve({ kind: 'succeeded', result: { tokenize: {} }, console });
    const invocation = await fixture.invoke({}, url);
    const openTokens = argumentWithCvc(inMinutes(20));
    const operations = outputWith(end, undefined, inMinutes(30));
    await fixture.runner({ openTokens, operations }).handle(await fixture.historyOf(invocation));
    await expectToEndAt(invocation, end);
  });

  it('ends with the cvc when the run failed', async () => {
    fixture.sandbox = () => Promise.reject(new DomainError('validation_failed', 'may quote it'));
    const invocation = await fixture.invoke({});
    const openTokens = argumentWithCvc();
    await fixture.runner({ openTokens }).handle(await fixture.historyOf(invocation));
    await expectToEndAt(invocation, end);
  });

  it('ends with the cvc when it is sealed again', async () => {
    succeeds();
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
    const openTokens = argumentWithCvc();
    await fixture.runner({ store, openTokens }).handle(await fixture.historyOf(invocation));
    await expectToEndAt(invocation, end);
  });
});
