import { randomUUID } from 'node:crypto';
import { EventStoreUnavailableError } from '@token-vault/event-store';
import { waitUntil } from '@token-vault/test-support';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type {
  DeadLetter,
  DeliveryOptions,
  Invocation,
  InvocationFeed,
  InvocationHandler,
} from '../src/port.ts';

/** A source of invocations. Tests recognise their own invocations by id. */
export interface FeedSubject {
  /** Makes them due. */
  publish(invocations: readonly Invocation[]): Promise<void>;
  /** A feed like that of another process of the same kind, after the previous one has ended. */
  open(options: DeliveryOptions): InvocationFeed;
  drop(): Promise<void>;
}

const tenantId = '00000000-0000-4000-8000-000000000001';
const waiting = { timeoutMs: 60_000 };

export function invocations(count: number): Invocation[] {
  return Array.from({ length: count }, () => ({ tenantId, invocationId: randomUUID() }));
}

/** A feed that runs until it is stopped or the test ends, and the invocations that it delivered. */
export class RunningFeed {
  readonly seen: string[] = [];
  readonly letters: DeadLetter[] = [];
  readonly ended: Promise<void>;
  readonly #abort = new AbortController();

  constructor(
    open: (options: DeliveryOptions) => InvocationFeed,
    handler: InvocationHandler = async () => undefined,
    options: Partial<DeliveryOptions> = {},
  ) {
    const onDeadLetter = async (letter: DeadLetter) => void this.letters.push(letter);
    const feed = open({ retryDelayMs: 1, drainTimeoutMs: 10_000, onDeadLetter, ...options });
    this.ended = feed.start((invocation, signal) => {
      this.seen.push(invocation.invocationId);
      return handler(invocation, signal);
    }, this.#abort.signal);
    this.ended.catch(() => undefined);
    onTestFinished(() => this.stop());
  }

  count({ invocationId }: Invocation): number {
    return this.seen.filter((id) => id === invocationId).length;
  }

  hasAll(wanted: readonly Invocation[]): boolean {
    const seen = new Set(this.seen);
    return wanted.every(({ invocationId }) => seen.has(invocationId));
  }

  async stop(): Promise<void> {
    this.#abort.abort();
    await this.ended;
  }
}

type Open = (options: DeliveryOptions) => InvocationFeed;
type Publish = (invocations: readonly Invocation[]) => Promise<void>;

/** The contract of every invocation feed (see `InvocationFeed`), as vitest tests. */
export function describeInvocationFeedContract(
  name: string,
  createSubject: () => Promise<FeedSubject>,
): void {
  describe(name, () => {
    let subject: FeedSubject;
    beforeAll(async () => {
      subject = await createSubject();
    }, 180_000);
    afterAll(() => subject.drop());
    const open: Open = (options) => subject.open(options);
    const publish: Publish = (invocations) => subject.publish(invocations);
    describeDelivery(open, publish);
    describeAcknowledgement(open, publish);
    describeFailures(open, publish);
  });
}

function describeDelivery(open: Open, publish: Publish): void {
  it('delivers invocations that are due before its start and after, unchanged, each once without a failure', async () => {
    const due = invocations(30);
    await publish(due.slice(0, 20));
    const received: Invocation[] = [];
    const feed = new RunningFeed(open, async (invocation) => void received.push(invocation));
    await publish(due.slice(20));
    await waitUntil(() => feed.hasAll(due), waiting);
    expect(received).toEqual(expect.arrayContaining(due));
    expect(feed.seen).toHaveLength(30);
  });

  it('runs at most the set number at once, and all of them in the end', async () => {
    const due = invocations(40);
    let [running, most] = [0, 0];
    const feed = new RunningFeed(
      open,
      async () => {
        most = Math.max(most, ++running);
        await new Promise(setImmediate);
        running--;
      },
      { concurrency: 4 },
    );
    await publish(due);
    await waitUntil(() => feed.hasAll(due), waiting);
    expect(most).toBe(4);
  });
}

function describeAcknowledgement(open: Open, publish: Publish): void {
  it('does not deliver acknowledged invocations again after a stop', async () => {
    const due = invocations(20);
    await publish(due);
    const first = new RunningFeed(open);
    await waitUntil(() => first.hasAll(due), waiting);
    await first.stop();
    const marker = invocations(1);
    await publish(marker);
    const second = new RunningFeed(open);
    await waitUntil(() => second.hasAll(marker), waiting);
    expect(second.seen).toEqual(marker.map(({ invocationId }) => invocationId));
  });

  it('delivers unfinished invocations again when its process ended, also when later ones were finished', async () => {
    const due = invocations(20);
    const stuck = due[7] as Invocation;
    await publish(due);
    const handler: InvocationHandler = ({ invocationId }) =>
      invocationId === stuck.invocationId ? new Promise(() => undefined) : Promise.resolve();
    const first = new RunningFeed(open, handler, { drainTimeoutMs: 0 });
    await waitUntil(() => first.hasAll(due), waiting);
    await first.stop();
    const second = new RunningFeed(open);
    await waitUntil(() => second.hasAll([stuck]), waiting);
    expect(second.count(stuck)).toBe(1);
  });

  it('lets running invocations end when it is stopped, and acknowledges them', async () => {
    const [due] = invocations(1) as [Invocation];
    await publish([due]);
    const gate = Promise.withResolvers<void>();
    const first = new RunningFeed(open, () => gate.promise);
    await waitUntil(() => first.hasAll([due]), waiting);
    const stopped = first.stop();
    gate.resolve();
    await stopped;
    const marker = invocations(1);
    await publish(marker);
    const second = new RunningFeed(open);
    await waitUntil(() => second.hasAll(marker), waiting);
    expect(second.count(due)).toBe(0);
  });
}

function describeFailures(open: Open, publish: Publish): void {
  it('gives up an invocation that fails repeatedly, continues with the others, and does not deliver it again', async () => {
    const due = invocations(10);
    const poison = due[0] as Invocation;
    await publish(due);
    const handler: InvocationHandler = async ({ invocationId }) => {
      if (invocationId === poison.invocationId)
        throw Object.assign(new Error('secret'), { code: 'poisoned' });
    };
    const first = new RunningFeed(open, handler, { maxAttempts: 3 });
    await waitUntil(() => first.letters.length === 1 && first.hasAll(due), waiting);
    expect(first.letters).toEqual([{ invocation: poison, reason: 'failed', attempts: 3, error: 'poisoned' }]);
    await first.stop();
    const marker = invocations(1);
    await publish(marker);
    const second = new RunningFeed(open);
    await waitUntil(() => second.hasAll(marker), waiting);
    expect(second.count(poison)).toBe(0);
  });

  it('tries again without end while the event store is unavailable to its handler', async () => {
    const due = invocations(3);
    await publish(due);
    let failures = 0;
    const handler: InvocationHandler = async () => {
      if (failures++ < 20) throw new EventStoreUnavailableError('for now');
    };
    const feed = new RunningFeed(open, handler, { maxAttempts: 2 });
    await waitUntil(() => failures === 23, waiting);
    expect(feed.letters).toEqual([]);
  });

  it('is started once, and is also ended by close', async () => {
    const feed = open({ onDeadLetter: async () => undefined });
    const ended = feed.start(async () => undefined, new AbortController().signal);
    expect(() => feed.start(async () => undefined, new AbortController().signal)).toThrow(TypeError);
    await feed.close();
    await ended;
  });
}
