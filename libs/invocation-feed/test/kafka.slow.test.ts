import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { createMemoryEventLog, createMemoryEventStore } from '@token-vault/event-store/memory';
import { createKafkaInvocationRelay, deadLetterTopic } from '@token-vault/invocation-feed/kafka';
import { waitUntil } from '@token-vault/test-support';
import { startKafka } from '@token-vault/test-support/kafka';
import { afterAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import type { Invocation, InvocationHandler } from '../src/port.ts';
import { describeInvocationFeedContract, invocations, RunningFeed } from './contract.ts';
import { invoked, registry, testCheckpoints, toInvocation } from './invoked.ts';
import { createKafkaSubject, sessionTimeoutMs, type KafkaSubject } from './kafka-subject.ts';

const kafka = await startKafka();
const waiting = { timeoutMs: 120_000 };
/** For conditions that connect to the broker each time. */
const asking = { ...waiting, pauseMs: 200 };

if ('missing' in kafka) {
  describe('the Kafka invocation feed', () => {
    it.skip(`keeps its contract on a real broker (not run: ${kafka.missing})`);
  });
} else {
  const { brokers, faults, kind } = kafka;
  afterAll(() => kafka.stop(), 60_000);

  describeInvocationFeedContract(`the Kafka invocation feed, on ${kind}`, async () => ({
    ...(await createKafkaSubject(brokers)),
    drop: async () => undefined,
  }));

  describe('members of a consumer group', () => {
    let subject: KafkaSubject;
    beforeEach(async () => {
      subject = await createKafkaSubject(brokers);
    });

    it('keep their session while a handler runs for longer than it: no other member gets its work', async () => {
      const gate = Promise.withResolvers<void>();
      const due = invocations(1);
      const handler: InvocationHandler = ({ invocationId }) =>
        invocationId === due[0]?.invocationId ? gate.promise : Promise.resolve();
      // Longer than in other tests, because it must be longer than the pauses of a busy machine.
      const session = { sessionTimeoutMs: 2 * sessionTimeoutMs };
      const members = [1, 2].map(
        () => new RunningFeed((options) => subject.open({ ...options, ...session }), handler),
      );
      await waitUntil(
        async () => {
          await subject.publish(invocations(8));
          return members.every(({ seen }) => seen.length > 20);
        },
        { ...asking, what: 'work for both members' },
      );
      await subject.publish(due);
      const deliveries = () => members.reduce((sum, member) => sum + member.count(due[0] as Invocation), 0);
      await waitUntil(() => deliveries() === 1, { ...waiting, what: 'the first delivery' });
      const since = performance.now();
      await waitUntil(() => performance.now() - since > 1.5 * session.sessionTimeoutMs, waiting);
      expect(deliveries()).toBe(1);
      gate.resolve();
      const acknowledged = { ...asking, what: 'the acknowledgements' };
      await waitUntil(async () => isEqual(await total(subject), await subject.count()), acknowledged);
    });

    it('share due invocations while members join and leave: all are finished, and no unfinished one is acknowledged', async () => {
      const finished = new Set<string>();
      // The first member takes all due invocations. Without this gate it can finish them before the second has joined.
      const isShared = Promise.withResolvers<void>();
      const handler: InvocationHandler = async ({ invocationId }) => {
        if (finished.size > 20) await isShared.promise;
        await new Promise((resolve) => setTimeout(resolve, 20));
        finished.add(invocationId);
      };
      const due = invocations(400);
      const members = [new RunningFeed((options) => subject.open(options), handler, { concurrency: 4 })];
      await subject.publish(due.slice(0, 200));
      await waitUntil(() => finished.size > 20, { ...waiting, what: 'work for the first member' });
      members.push(new RunningFeed((options) => subject.open(options), handler, { concurrency: 4 }));
      await subject.publish(due.slice(200, 300));
      await waitUntil(() => (members[1]?.seen.length ?? 0) > 0, { ...waiting, what: 'work for the second' });
      isShared.resolve();
      await members[0]?.stop();
      members.push(new RunningFeed((options) => subject.open(options), handler, { concurrency: 4 }));
      await subject.publish(due.slice(300));
      await waitUntil(() => finished.size === 400, { ...waiting, what: 'the end of all' });
      await waitUntil(async () => isEqual(await total(subject), await subject.count()), {
        ...asking,
        what: 'the acknowledgements',
      });
    });

    it('that leave while they join keep no partition', async () => {
      const due = invocations(40);
      await subject.publish(due);
      for (let passing = 0; passing < 8; passing += 1) {
        const member = new RunningFeed(
          (options) => subject.open(options),
          () => new Promise(() => undefined),
          {
            drainTimeoutMs: 0,
          },
        );
        await new Promise((resolve) => setTimeout(resolve, 20 * passing));
        await member.stop();
      }
      const survivor = new RunningFeed((options) => subject.open(options));
      await waitUntil(() => survivor.hasAll(due), { ...waiting, what: 'all by the survivor' });
    });

    it('that are killed leave their unfinished invocations to the others', async () => {
      const due = invocations(40);
      await subject.publish(due);
      const main = path.join(import.meta.dirname, 'kafka-consumer-process.ts');
      const parameters = [brokers.join(','), subject.topic, subject.groupId];
      const child = spawn(process.execPath, [main, ...parameters], { stdio: ['ignore', 'pipe', 'inherit'] });
      onTestFinished(() => void child.kill('SIGKILL'));
      const begun: string[] = [];
      createInterface({ input: child.stdout }).on('line', (line) => {
        const [id = '', state] = line.split(' ');
        if (state === 'begun') begun.push(id);
      });
      await waitUntil(() => begun.length === 20, waiting);
      child.kill('SIGKILL');
      await once(child, 'exit');
      const survivor = new RunningFeed((options) => subject.open(options));
      await waitUntil(() => begun.every((id) => survivor.seen.includes(id)), waiting);
    });

    it('pause a partition while too many of its messages are unfinished, and continue afterwards', async () => {
      const due = invocations(600);
      await subject.publish(due);
      const gate = Promise.withResolvers<void>();
      const options = { concurrency: 1_000, maxUnfinishedPerPartition: 5 };
      const feed = new RunningFeed(
        (others) => subject.open({ ...others, ...options }),
        () => gate.promise,
      );
      await waitUntil(() => feed.seen.length === 4 * 5, waiting);
      // Creates another topic, which takes long enough for a further message to arrive if there were one.
      await createKafkaSubject(brokers);
      expect(feed.seen).toHaveLength(4 * 5);
      gate.resolve();
      await waitUntil(() => feed.hasAll(due), waiting);
      expect(feed.seen).toHaveLength(600);
    });

    it('move a message that is not of the vault to the dead letters unchanged, and continue', async () => {
      await subject.publishRaw('key', '{"tenant_id":5}');
      const due = invocations(5);
      await subject.publish(due);
      const feed = new RunningFeed((options) => subject.open(options));
      await waitUntil(() => feed.hasAll(due) && feed.letters.length === 1, waiting);
      expect(feed.letters).toMatchObject([{ invocation: undefined, reason: 'malformed' }]);
      const [letter] = await subject.messages(deadLetterTopic(subject.topic), 1);
      expect(letter).toMatchObject({
        key: 'key',
        value: '{"tenant_id":5}',
        headers: { reason: 'malformed' },
      });
      await waitUntil(async () => isEqual(await total(subject), await subject.count()), asking);
    });
  });

  describe('the relay', () => {
    it('sends only ids to the topic, and moves its checkpoint after the broker has answered', async () => {
      const subject = await createKafkaSubject(brokers, 1);
      const { store, checkpoints, append, run } = relayInto(subject);
      const due = invocations(5);
      await append(due);
      const stopRelay = run();
      const messages = await subject.messages(subject.topic, 5);
      expect(messages.map(({ key, value }) => ({ key, value: JSON.parse(value) as unknown }))).toEqual(
        due.map(({ tenantId, invocationId }) => ({
          key: invocationId,
          value: { tenant_id: tenantId, invocation_id: invocationId },
        })),
      );
      const head = await store.head();
      await waitUntil(() => checkpoints.saved.at(-1) === head, waiting);
      await stopRelay();
      const [later] = [invocations(1)];
      await append(later);
      const stopAgain = run();
      const all = await subject.messages(subject.topic, 6);
      expect(all.at(-1)?.key).toBe(later[0]?.invocationId);
      await stopAgain();
    });

    it('relays messages again when the broker ended before it answered', async (context) => {
      if (!faults) return context.skip('the broker is not ours to kill');
      const subject = await createKafkaSubject(brokers);
      const { append, run } = relayInto(subject);
      const finished = new Set<string>();
      const handler: InvocationHandler = async ({ invocationId }) => void finished.add(invocationId);
      const feed = new RunningFeed((options) => subject.open(options), handler);
      const stopRelay = run();
      const due = invocations(60);
      await append(due.slice(0, 20));
      await waitUntil(() => finished.size === 20, waiting);
      await faults.kill();
      await append(due.slice(20, 40));
      await faults.start();
      await append(due.slice(40));
      await waitUntil(() => finished.size === 60, waiting);
      await faults.halt();
      const last = invocations(10);
      await append(last);
      await faults.start();
      await waitUntil(() => feed.hasAll(last), waiting);
      await stopRelay();
    });
  });
}

/** @throws Error that names both numbers, which is then the cause of a failure */
function isEqual(actual: number, wanted: number): true {
  expect(actual).toBe(wanted);
  return true;
}

/** The number of messages that the group has acknowledged. */
async function total(subject: KafkaSubject): Promise<number> {
  return (await subject.committed()).reduce((sum, next) => sum + Math.max(next, 0), 0);
}

function relayInto({ connection, topic }: KafkaSubject) {
  const store = createMemoryEventStore({ registry, log: createMemoryEventLog() });
  const checkpoints = testCheckpoints();
  onTestFinished(() => store.close());
  return {
    store,
    checkpoints,
    append: async (due: readonly Invocation[]) => {
      for (const invocation of due) {
        const events = [invoked(invocation), invoked(invocation, 'Noise')];
        await store.append(`invocation-${invocation.invocationId}`, events, 'any');
      }
    },
    run: () => {
      const abort = new AbortController();
      const relay = createKafkaInvocationRelay({ connection, topic, store, checkpoints, toInvocation });
      const ended = relay.run(abort.signal);
      const stop = async () => {
        abort.abort();
        await ended;
      };
      onTestFinished(stop);
      return stop;
    },
  };
}
