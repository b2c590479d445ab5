import {
  EventStoreUnavailableError,
  PositionBeyondHeadError,
  type EventStore,
} from '@token-vault/event-store';
import { UnknownEventError } from '@token-vault/contracts';
import type { Producer } from 'kafkajs';
import { aborted } from '../aborted.ts';
import { Backoff } from '../backoff.ts';
import type { CheckpointStore, InvocationRelay, ToInvocation } from '../port.ts';
import { createProducer, type KafkaConnection } from './connection.ts';
import { invocationMessage } from './message.ts';

export interface KafkaInvocationRelayOptions {
  readonly connection: KafkaConnection;
  readonly topic: string;
  readonly store: EventStore;
  /** Of the relay: saved after the broker's answer, so after a crash some invocations are relayed again, and none is left out. */
  readonly checkpoints: CheckpointStore;
  readonly toInvocation: ToInvocation;
  readonly onTrouble?: (error: unknown) => void;
}

/** Brings invocations from the log to a Kafka topic. Two at once relay everything twice, which is harmless. */
export function createKafkaInvocationRelay(options: KafkaInvocationRelayOptions): InvocationRelay {
  return {
    async run(signal) {
      const backoff = new Backoff(signal);
      while (!signal.aborted) {
        // A new one each time: an idempotent producer whose sequence is in doubt cannot go on.
        const producer = createProducer(options.connection);
        try {
          // What the broker still answers then is not waited for, and relayed again.
          await Promise.race([relay(options, producer, signal, () => backoff.succeed()), aborted(signal)]);
        } catch (error) {
          if (isFinal(error)) throw error;
          options.onTrouble?.(error);
        } finally {
          await producer.disconnect().catch(() => undefined);
        }
        await backoff.pause();
      }
    },
  };
}

async function relay(
  { store, checkpoints, toInvocation, topic }: KafkaInvocationRelayOptions,
  producer: Producer,
  signal: AbortSignal,
  onProgress: () => void,
): Promise<void> {
  await producer.connect();
  const start = await checkpoints.load();
  for await (const { events, position } of store.subscribe(start, signal)) {
    const messages = events.flatMap((event) => {
      const invocation = toInvocation(event);
      return invocation ? [invocationMessage(invocation)] : [];
    });
    // -1: written by every replica in sync.
    if (messages.length > 0) await producer.send({ topic, messages, acks: -1 });
    await checkpoints.save(position);
    onProgress();
  }
}

/** Neither time nor another connection helps: somebody has to look. */
function isFinal(error: unknown): boolean {
  if (error instanceof EventStoreUnavailableError) return false;
  return (
    error instanceof UnknownEventError ||
    error instanceof PositionBeyondHeadError ||
    error instanceof TypeError
  );
}
