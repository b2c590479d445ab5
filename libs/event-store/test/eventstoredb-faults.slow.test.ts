import { randomUUID } from 'node:crypto';
import type { EventStoreDbOptions } from '@token-vault/event-store/eventstoredb';
import {
  AppendTooLargeError,
  AppendUnansweredError,
  EventStoreUnavailableError,
  parsePosition,
  RevisionConflictError,
  startPosition,
} from '@token-vault/event-store';
import { startEventStoreDbDouble, type EventStoreDbDouble } from '@token-vault/test-doubles/eventstoredb';
import { waitUntil } from '@token-vault/test-support';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { collect, expectNothingUnhandled, follow, openOn } from './eventstoredb-fixture.ts';
import { noted, type SuiteBatch } from '../src/contract-suite/test-events.ts';

// One test for each defect of @eventstore/db-client that the adapter avoids. They need faults of the double, or look at what it has got: no
// answers, lost packets, events of the server's own. What a server alone can show is in the contract suite and in eventstoredb-prefix.

let double: EventStoreDbDouble;

beforeEach(async () => {
  double = await startEventStoreDbDouble();
});
afterEach(() => double.close());
expectNothingUnhandled();

const open = (options: Partial<EventStoreDbOptions> = {}) => openOn(double, options);

describe('an append to EventStoreDB', () => {
  it('that is never answered is unavailable at its deadline, and can be repeated whether it was stored or not', async () => {
    const store = open({ deadlineMs: 1_000 });
    for (const swallow of ['before-storing', 'after-storing'] as const) {
      const [stream, event] = [randomUUID(), noted(swallow)];
      double.faults.swallow = swallow;
      await expect(store.append(stream, [event], 'no-stream')).rejects.toBeInstanceOf(
        EventStoreUnavailableError,
      );
      double.faults.swallow = undefined;
      expect(await store.append(stream, [event], 'no-stream')).toMatchObject({ revision: 0 });
      expect(await collect(store.readStream(stream))).toEqual([swallow]);
    }
  });

  it('that repeats one under way is repeated itself until that is done, and both have one answer', async () => {
    double.faults.commitMs = 150;
    double.faults.commitTimeoutMs = 50;
    const events = [noted('a'), noted('b')];
    const store = open();
    const appends = [store, open()].map((each) => each.append('a', events, 'no-stream'));
    const [first, second] = await Promise.all(appends);
    expect(second).toEqual(first);
    expect(await collect(store.readStream('a'))).toEqual(['a', 'b']);
  });

  it('that is under way for longer than its deadline is unavailable', async () => {
    double.faults.commitMs = 1_500;
    double.faults.commitTimeoutMs = 20;
    const events = [noted('a')];
    const first = open().append('a', events, 'no-stream');
    const repeated = open({ deadlineMs: 300 }).append('a', events, 'no-stream');
    await expect(repeated).rejects.toBeInstanceOf(AppendUnansweredError);
    expect(await first).toMatchObject({ revision: 0 });
  });

  it('that is stuck on a dead network is unavailable at its deadline, and the next takes another connection', async () => {
    const store = open({ deadlineMs: 300 });
    await store.append('a', [noted('first')], 'no-stream');
    double.freeze();
    await expect(store.append('a', [noted('lost')], 0)).rejects.toBeInstanceOf(AppendUnansweredError);
    double.thaw();
    await waitUntil(() => store.append('b', [noted('second')], 'any').then(() => true));
    expect(new Set(double.calls.get('batchAppend')).size).toBeGreaterThan(1);
  });

  it('to a server that is down is unavailable, and so is every read; all of it recovers by itself', async () => {
    const store = open({ deadlineMs: 1_000 });
    const event = noted('a');
    await double.down();
    const append = () => store.append('a', [event], 'no-stream');
    await expect(append()).rejects.toBeInstanceOf(EventStoreUnavailableError);
    await expect(append()).rejects.not.toBeInstanceOf(AppendUnansweredError);
    await expect(collect(store.readStream('a'))).rejects.toBeInstanceOf(EventStoreUnavailableError);
    await expect(store.head()).rejects.toBeInstanceOf(EventStoreUnavailableError);
    await expect(follow(store).ended).rejects.toBeInstanceOf(EventStoreUnavailableError);
    await double.up();
    await waitUntil(() => append().then(() => true));
    expect(await collect(store.readStream('a'))).toEqual(['a']);
  });

  it('above the limit of its server is refused before it is sent, and names that limit', async () => {
    const store = open();
    const half = 'x'.repeat(500_000);
    const refused = store.append('a', [noted(half), noted(half)], 'any');
    await expect(refused).rejects.toBeInstanceOf(AppendTooLargeError);
    await expect(refused).rejects.toThrow(/limit of 1000000/);
    expect(double.calls.get('batchAppend')).toBeUndefined();
    const generous = open({ maxAppendBytes: 2_000_000 });
    await expect(generous.append('a', [noted(half), noted(half), noted(half)], 'any')).rejects.toBeInstanceOf(
      AppendTooLargeError,
    );
  });

  it('goes over the wire as bytes of JSON, the schema version in its metadata', async () => {
    await open().append('a', [noted('ä')], 'any');
    const stored = double.log.events.at(-1);
    expect(stored?.stream).toBe('vault.a');
    expect(stored).toMatchObject({ type: 'Noted', contentType: 'application/octet-stream' });
    expect(Buffer.from(stored?.data ?? []).toString()).toBe('{"text":"ä"}');
    const metadata: unknown = JSON.parse(Buffer.from(stored?.metadata ?? []).toString());
    expect(metadata).toEqual({ version: 1, ...noted('ä').metadata });
  });

  it('to a stream that was deleted for good is an error, and is not tried again', async () => {
    const store = open();
    await store.append('a', [noted('a')], 'no-stream');
    double.log.remove('vault.a', 'any', true);
    const failure = await store.append('a', [noted('b')], 0).catch((error: unknown) => error);
    expect(failure).toMatchObject({ type: 'stream-deleted' });
    await expect(collect(store.readStream('a'))).rejects.toMatchObject({ type: 'stream-deleted' });
  });

  it('that conflicts names the actual revision, also under either kind of server', async () => {
    const store = open();
    await store.append('a', [noted('a')], 'no-stream');
    const failure = await store.append('a', [noted('b')], 3).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(RevisionConflictError);
    expect(failure).toMatchObject({ stream: 'a', expected: 3, actual: 0 });
  });
});

describe('a connection string', () => {
  it('that would make the client answer a conflict with a wrong revision is refused', () => {
    expect(() =>
      open({ connectionString: 'esdb://127.0.0.1:1?tls=false&throwOnAppendFailure=false' }),
    ).toThrow(TypeError);
    expect(() => open({ connectionString: 'http://127.0.0.1:2113' })).toThrow(TypeError);
  });
});

describe('a read from EventStoreDB', () => {
  it('that is left early leaves no call open: the store still answers after 150 of them', async () => {
    const store = open({ maxPageBytes: 1 });
    const many = Array.from({ length: 300 }, (_, index) => noted(`${index}`));
    await store.append('a', many, 'no-stream');
    for (let index = 0; index < 150; index++) {
      for await (const event of store.readStream('a')) {
        expect(event.revision).toBe(0);
        break;
      }
    }
    expect(await collect(store.readStream('a', { from: 299 }))).toEqual(['299']);
    await waitUntil(() => double.openReads() === 0);
  });

  it('that is never answered is unavailable at its deadline', async () => {
    const store = open({ deadlineMs: 300 });
    double.faults.swallowReads = true;
    await expect(collect(store.readStream('a'))).rejects.toBeInstanceOf(EventStoreUnavailableError);
    await expect(store.head()).rejects.toBeInstanceOf(EventStoreUnavailableError);
    double.faults.swallowReads = false;
    expect(await collect(store.readStream('a'))).toEqual([]);
  });

  it('of streams that do not exist ends quietly, many times at once', async () => {
    const store = open();
    const reads = Array.from({ length: 200 }, () => collect(store.readStream(randomUUID())));
    expect((await Promise.all(reads)).flat()).toEqual([]);
  });

  it('shows nothing of the events that the server writes itself', async () => {
    const store = open();
    double.writeSystemEvents(10);
    expect(await collect(store.readAll(startPosition))).toEqual([]);
    const { position } = await store.append('a', [noted('a')], 'any');
    double.writeSystemEvents(10);
    await store.append('a', [noted('b')], 'any');
    double.writeSystemEvents(5);
    expect(await collect(store.readAll(startPosition))).toEqual(['a', 'b']);
    expect(await collect(store.readAll(position))).toEqual(['b']);
  });

  it('has its head at the last event of the vault, whatever the server wrote after it', async () => {
    const store = open();
    const { position } = await store.append('a', [noted('a')], 'any');
    double.writeSystemEvents(3);
    expect(await store.head()).toBe(position);
  });
});

describe('connections', () => {
  it('are one for appends, one for reads, one for each subscription', async () => {
    const store = open();
    await store.append('a', [noted('a')], 'any');
    await collect(store.readStream('a'));
    const subscriptions = [follow(store), follow(store)];
    await waitUntil(() => subscriptions.every(({ texts }) => texts().length === 1));
    const appends = new Set(double.calls.get('batchAppend'));
    const reads = new Set(double.calls.get('read'));
    expect([appends.size, reads.size]).toEqual([1, 3]);
    expect([...appends].filter((peer) => reads.has(peer))).toEqual([]);
  });
});

describe('a subscription to EventStoreDB', () => {
  it.each(['error', 'end'] as const)('that the server drops by an %s is unavailable', async (how) => {
    const store = open();
    await store.append('a', [noted('a')], 'any');
    const subscription = follow(store);
    await waitUntil(() => subscription.texts().length === 1);
    double.dropSubscriptions(how);
    await expect(subscription.ended).rejects.toBeInstanceOf(EventStoreUnavailableError);
    await store.append('a', [noted('b')], 0);
    const resumed = follow(store, subscription.batches.at(-1)?.position);
    await waitUntil(() => resumed.texts().length === 1);
    expect(resumed.texts()).toEqual(['b']);
  });

  it('that goes silent while the log goes on is unavailable', async () => {
    const store = open({ stallCheckMs: 50 });
    const subscription = follow(store);
    await waitUntil(() => subscription.batches.length > 0);
    double.faults.stallSubscriptions = true;
    double.log.wake();
    await store.append('a', [noted('a')], 'any');
    await expect(subscription.ended).rejects.toThrow(/stalled/);
  });

  it('that receives nothing because the log does not grow goes on, also when its reader is slow', async () => {
    const store = open({ stallCheckMs: 20 });
    const abort = new AbortController();
    const seen: unknown[] = [];
    const gate = Promise.withResolvers<void>();
    const run = (async () => {
      for await (const { events } of store.subscribe(startPosition, abort.signal, { maxBatch: 10 })) {
        if (events.length > 0) await gate.promise;
        seen.push(...events);
      }
    })();
    for (let index = 0; index < 30; index++) {
      await store.append(
        'a',
        Array.from({ length: 10 }, () => noted('x'.repeat(2_000))),
        'any',
      );
    }
    // Many checks of the watch: each reads the end of the log, or sees that the subscription is paused by its reader.
    const looks = double.calls.get('read')?.length ?? 0;
    const idle = follow(store, await store.head());
    await waitUntil(() => (double.calls.get('read')?.length ?? 0) > looks + 10);
    gate.resolve();
    await waitUntil(() => seen.length === 300);
    expect(idle.batches).toHaveLength(1);
    abort.abort();
    await run;
  });

  it('that the network loses without a word is unavailable', async () => {
    const store = open({ stallCheckMs: 50, deadlineMs: 300 });
    const subscription = follow(store);
    await waitUntil(() => subscription.batches.length > 0);
    double.freeze();
    await expect(subscription.ended).rejects.toBeInstanceOf(EventStoreUnavailableError);
    double.thaw();
  });

  it('moves its position over events of the server, without showing them, and never beyond the log', async () => {
    const store = open();
    const { position } = await store.append('a', [noted('a')], 'any');
    const subscription = follow(store, position);
    double.writeSystemEvents(1_200);
    const reached = () => Number(subscription.batches.at(-1)?.position);
    await waitUntil(() => reached() >= Number(double.log.events.at(1_000)?.position));
    expect(subscription.texts()).toEqual([]);
    expect(double.log.events.map((event) => event.position)).toContain(reached());
    const resumed = follow(store, parsePosition(String(reached())));
    await store.append('a', [noted('b')], 'any');
    await waitUntil(() => resumed.texts().length > 0);
    expect(resumed.texts()).toEqual(['b']);
  });

  it('never has a position beyond events that it has not shown yet', async () => {
    const store = open();
    for (let round = 0; round < 40; round++) {
      await store.append(
        'a',
        Array.from({ length: 25 }, (_, index) => noted(`${round} ${index}`)),
        'any',
      );
      double.writeSystemEvents(25);
    }
    const abort = new AbortController();
    let [shown, before] = [0, 0];
    for await (const { events, position } of store.subscribe(startPosition, abort.signal, { maxBatch: 7 })) {
      shown += events.length;
      const due = double.log.events.filter(
        (event) => event.type === 'Noted' && event.position <= Number(position),
      );
      expect(shown).toBe(due.length);
      expect(Number(position)).toBeGreaterThanOrEqual(before);
      before = Number(position);
      if (shown === 1_000) abort.abort();
    }
    expect(shown).toBe(1_000);
  });

  it('that falls behind does not claim to have caught up before it has', async () => {
    const store = open();
    const subscription = store.subscribe(startPosition, new AbortController().signal, { maxBatch: 50 });
    const batches = subscription[Symbol.asyncIterator]();
    await batches.next();
    for (let index = 0; index < 40; index++) {
      await store.append(
        'a',
        Array.from({ length: 50 }, () => noted('a')),
        'any',
      );
    }
    const head = await store.head();
    for (let shown = 0; shown < 2_000;) {
      const { value } = (await batches.next()) as { value: SuiteBatch };
      shown += value.events.length;
      expect(value.isCaughtUp).toBe(value.position === head);
    }
    await batches.return?.();
    await waitUntil(() => double.openReads() === 0);
  });
});
