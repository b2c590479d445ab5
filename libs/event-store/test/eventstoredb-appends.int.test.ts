import type { EventStoreDbOptions } from '@token-vault/event-store/eventstoredb';
import {
  AppendUnansweredError,
  EventStoreUnavailableError,
  RevisionConflictError,
} from '@token-vault/event-store';
import { startEventStoreDbDouble, type EventStoreDbDouble } from '@token-vault/test-doubles/eventstoredb';
import { waitUntil } from '@token-vault/test-support';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { collect, expectNothingUnhandled, openOn } from './eventstoredb-fixture.ts';
import { noted } from '../src/contract-suite/test-events.ts';

// Each needs the double: it holds answers back, refuses, breaks a call, and counts the calls.

let double: EventStoreDbDouble;

beforeEach(async () => {
  double = await startEventStoreDbDouble({ maxAppendBytes: 8 * 1024 * 1024 });
});
afterEach(() => double.close());
expectNothingUnhandled();

const open = (options: Partial<EventStoreDbOptions> = {}) => openOn(double, options);
const streamsOf = () => double.log.events.map(({ stream }) => stream);
const callsOf = (method: string) => double.calls.get(method)?.length ?? 0;

describe('the appends of a store', () => {
  it('share one call of the server, also when they are hundreds at once, and do not ask for its features', async () => {
    const store = open();
    double.faults.failFeatures = true;
    double.faults.appendDelayMs = 5;
    const appends = Array.from({ length: 600 }, (_, index) =>
      store.append(`stream-${index}`, [noted('a'), noted('b')], 'no-stream'),
    );
    expect(new Set((await Promise.all(appends)).map(({ position }) => position)).size).toBe(600);
    expect([callsOf('batchAppend'), callsOf('append'), callsOf('getSupportedMethods')]).toEqual([1, 0, 0]);
  });

  it('get their own answers, in whatever order these come', async () => {
    const store = open();
    await store.append('a', [noted('a')], 'no-stream');
    const answered: string[] = [];
    double.faults.commitMs = 300;
    const late = store.append('a', [noted('late')], 0).then(() => answered.push('late'));
    await waitUntil(() => streamsOf().filter((stream) => stream === 'vault.a').length === 2);
    double.faults.commitMs = 0;
    const early = store.append('b', [noted('early')], 'any').then(() => answered.push('early'));
    const conflict = await store.append('a', [noted('b')], 7).catch((error: unknown) => error);
    expect(conflict).toMatchObject({ stream: 'a', expected: 7, actual: 1 });
    await Promise.all([early, late]);
    expect(answered).toEqual(['early', 'late']);
  });

  it('are unanswered when that call breaks; those of other stores, and the next ones, are not touched', async () => {
    const [left, right] = [open(), open()];
    await left.append('left', [noted('a')], 'no-stream');
    await right.append('right', [noted('a')], 'no-stream');
    double.faults.commitMs = 200;
    const broken = [1, 2].map((index) => left.append(`left-${index}`, [noted('b')], 'any'));
    const whole = right.append('right', [noted('b')], 0);
    await waitUntil(() => streamsOf().filter((stream) => stream.startsWith('vault.')).length === 5);
    double.killBatch(1);
    for (const append of broken) await expect(append).rejects.toBeInstanceOf(AppendUnansweredError);
    expect(await whole).toMatchObject({ revision: 1 });
    expect(await left.append('left', [noted('c')], 0)).toMatchObject({ revision: 1 });
  });

  it('open the call again when it broke while nothing was under way', async () => {
    const store = open();
    const event = noted('b');
    await store.append('a', [noted('a')], 'no-stream');
    double.killBatch();
    // The store may not have noticed yet, and then does not know the outcome.
    const repeat = () => store.append('a', [event], 0).catch(() => undefined);
    expect(await waitUntil(repeat)).toMatchObject({ revision: 1 });
    expect(callsOf('batchAppend')).toBeGreaterThan(1);
  });

  it('have a deadline each', async () => {
    const store = open({ deadlineMs: 500 });
    double.faults.swallow = 'after-storing';
    const lost = expect(store.append('a', [noted('a')], 'any')).rejects.toBeInstanceOf(AppendUnansweredError);
    await waitUntil(() => streamsOf().includes('vault.a'));
    double.faults.swallow = undefined;
    expect(await store.append('b', [noted('b')], 'any')).toMatchObject({ revision: 0 });
    await lost;
  });

  it('that wait too long for their turn are unavailable, and are not sent', async () => {
    const store = open({ deadlineMs: 300, maxConcurrentAppends: 1 });
    double.faults.swallow = 'after-storing';
    const stuck = store.append('a', [noted('stuck')], 'any');
    const waiting = store.append('b', [noted('waiting')], 'any');
    await expect(waiting).rejects.toBeInstanceOf(EventStoreUnavailableError);
    await expect(waiting).rejects.not.toBeInstanceOf(AppendUnansweredError);
    await expect(stuck).rejects.toBeInstanceOf(AppendUnansweredError);
    expect(streamsOf()).toContain('vault.a');
    expect(streamsOf()).not.toContain('vault.b');
  });

  it('are calls of their own when they are large', async () => {
    const store = open({ maxAppendBytes: 8_000_000 });
    const events = ['a', 'b', 'c'].map((text) => noted(text.repeat(900_000)));
    expect(await store.append('a', events, 'no-stream')).toMatchObject({ revision: 2 });
    expect(callsOf('append')).toBe(1);
    expect(await collect(store.readStream('a'))).toEqual(events.map(({ data }) => data.text));
  });
});

describe('appends to one stream that expect no revision', () => {
  it('go together while one is under way, in their order, each with its own revision', async () => {
    const store = open();
    double.faults.commitMs = 50;
    const appends = Array.from({ length: 100 }, (_, index) =>
      store.append('access', [noted(`${index} a`), noted(`${index} b`)], 'any'),
    );
    const results = await Promise.all(appends);
    expect(results.map(({ revision }) => revision)).toEqual(results.map((_, index) => 2 * index + 1));
    expect(new Set(results.map(({ position }) => position)).size).toBe(2);
    const stored = await collect(store.readStream('access'));
    expect(stored).toEqual(results.flatMap((_, index) => [`${index} a`, `${index} b`]));
  });

  it('are stored once each, also when some repeat what is stored', async () => {
    const store = open();
    const repeated = noted('repeated');
    await store.append('access', [repeated], 'any');
    double.faults.commitMs = 50;
    const events = [noted('first'), repeated, noted('second'), noted('third')];
    await Promise.all(events.map((event) => store.append('access', [event], 'any')));
    expect(await collect(store.readStream('access'))).toEqual(['repeated', 'first', 'second', 'third']);
  });

  it('that wait too long are unavailable, and are not sent', async () => {
    const store = open({ deadlineMs: 300 });
    double.faults.swallow = 'after-storing';
    const stuck = store.append('access', [noted('stuck')], 'any');
    const waiting = store.append('access', [noted('waiting')], 'any');
    await expect(waiting).rejects.toBeInstanceOf(EventStoreUnavailableError);
    await expect(waiting).rejects.not.toBeInstanceOf(AppendUnansweredError);
    await expect(stuck).rejects.toBeInstanceOf(AppendUnansweredError);
    expect(streamsOf().filter((stream) => stream === 'vault.access')).toHaveLength(1);
  });
});

describe('the appends of a store on a server without BatchAppend', () => {
  beforeEach(() => {
    double.faults.batchAppend = false;
  });

  it('are calls of their own, at most 64 at once', async () => {
    const store = open();
    double.faults.appendDelayMs = 5;
    const appends = Array.from({ length: 300 }, (_, index) =>
      store.append(`stream-${index}`, [noted('a')], 'no-stream'),
    );
    expect(await Promise.all(appends)).toHaveLength(300);
    expect(double.peak('append')).toBe(64);
    expect([callsOf('batchAppend'), new Set(double.calls.get('append')).size]).toEqual([1, 1]);
    const conflict = store.append('stream-1', [noted('b')], 3);
    await expect(conflict).rejects.toBeInstanceOf(RevisionConflictError);
  });

  it('that are not answered are unavailable at their deadline', async () => {
    const store = open({ deadlineMs: 200 });
    double.faults.swallow = 'after-storing';
    await expect(store.append('a', [noted('a')], 'any')).rejects.toBeInstanceOf(AppendUnansweredError);
  });
});

/** Each status that a server may give, and whether the append may be tried again. */
describe.each([
  { kind: 'a call of all appends', hasBatch: true, retriable: [14, 13, 8, 10, 7, 3], defects: [12] },
  { kind: 'a call of its own', hasBatch: false, retriable: [14, 13, 8, 10, 7], defects: [3, 12] },
])('an append by $kind', ({ hasBatch, retriable, defects }) => {
  const statuses = [
    ...retriable.map((code) => [code, true] as const),
    ...defects.map((code) => [code, false] as const),
  ];
  it.each(statuses)('that fails with gRPC status %i is unavailable: %s', async (code, isRetriable) => {
    double.faults.batchAppend = hasBatch;
    const store = open({ deadlineMs: 300 });
    double.faults.failAppends = code;
    const failure = await store.append('a', [noted('a')], 'any').catch((error: unknown) => error);
    expect(failure instanceof EventStoreUnavailableError).toBe(isRetriable);
    double.faults.failAppends = undefined;
    // The last repeat within the deadline may have come after the fault ended, so the unavailable append may be stored.
    expect((await store.append('a', [noted('b')], 'any')).revision).toBeLessThanOrEqual(1);
  });
});
