import { Backoff } from '../backoff.ts';
import { Deliveries } from '../deliveries.ts';
import type { InvocationFeed, InvocationHandler } from '../port.ts';
import { DeadLetters } from './dead-letters.ts';
import { GroupMember } from './group-member.ts';
import type { KafkaInvocationFeedOptions } from './options.ts';

/** Takes invocations from a Kafka topic, as a member of a consumer group. */
export function createKafkaInvocationFeed(options: KafkaInvocationFeedOptions): InvocationFeed {
  const closing = new AbortController();
  let running: Promise<void> | undefined;
  return {
    start(handler, signal) {
      if (running) throw new TypeError('a feed is started once');
      running = run(options, handler, AbortSignal.any([signal, closing.signal]));
      return running;
    },
    async close() {
      closing.abort();
      await running?.catch(() => undefined);
    },
  };
}

async function run(
  options: KafkaInvocationFeedOptions,
  handler: InvocationHandler,
  signal: AbortSignal,
): Promise<void> {
  const letters = new DeadLetters(options);
  const deliveries = new Deliveries(handler, { ...options, onDeadLetter: (letter) => letters.send(letter) });
  const backoff = new Backoff(signal);
  let isDrained = false;
  while (!isDrained) {
    const member = new GroupMember(options, deliveries, letters);
    try {
      // Continues when a broker restarts; ends only at the signal, or at an error that kafkajs does not recover from.
      await member.run(signal);
    } catch (error) {
      options.onTrouble?.(error);
    }
    if (signal.aborted) {
      isDrained = true;
      // Still a member of the group and sending heartbeats: no other member starts the invocations that end here.
      member.stopTaking();
      await deliveries.drain(options.drainTimeoutMs ?? 30_000);
    }
    await member.leave();
    await backoff.pause();
  }
  await letters.close();
}
