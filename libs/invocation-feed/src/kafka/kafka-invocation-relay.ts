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
  /**
   * The checkpoint of the relay. It is saved after the broker's answer, so after a crash some invocations are relayed again, and none is
   * skipped.
   */
  readonly checkpoints: CheckpointStore;
  readonly toInvocation: ToInvocation;
  readonly onTrouble?: (error: unknown) => void;
}

/** Copies invocations from the log to a Kafka topic. Two relays at once copy each invocation twice, which is harmless. */
export function createKafkaInvocationRelay(options: KafkaInvocationRelayOptions): InvocationRelay {
  return {
    async run(signal) {
      const backoff = new Backoff(signal);
      while (!signal.aborted) {
        // A new producer each time: an idempotent producer with an uncertain sequence cannot continue.
        const producer = createProducer(options.connection);
        try {
          // After the abort, answers of the broker are not awaited; these messages are relayed again.
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

/** Neither a later attempt nor another connection helps: an operator has to act. */
function isFinal(error: unknown): boolean {
  if (error instanceof EventStoreUnavailableError) return false;
  return (
    error instanceof UnknownEventError ||
    error instanceof PositionBeyondHeadError ||
    error instanceof TypeError
  );
}
