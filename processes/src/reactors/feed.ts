import type { EventStore } from '@token-vault/event-store';
import type { InvocationFeed, InvocationRelay } from '@token-vault/invocation-feed';
import { createDirectInvocationFeed } from '@token-vault/invocation-feed/direct';
import { createFeedCheckpoints, deliveryOptions, toInvocation } from '@token-vault/reactor-runner';
import { errorFields, type Logger } from '@token-vault/observability';
import type { Pool } from 'pg';

/** The way of due invocations to a runner: directly from the log, or by a Kafka topic. */
export type FeedChoice =
  | { readonly kind: 'direct' }
  | { readonly kind: 'kafka'; readonly brokers: readonly string[]; readonly topic: string };

export type KafkaChoice = FeedChoice & { readonly kind: 'kafka' };

interface FeedParts {
  readonly store: EventStore;
  readonly pool: Pool;
  readonly logger: Logger;
}

const connectionOf = ({ brokers }: KafkaChoice) => ({ clientId: 'token-vault', brokers: [...brokers] });

export async function createFeed(
  choice: FeedChoice,
  { store, pool, logger }: FeedParts,
): Promise<InvocationFeed> {
  const delivery = deliveryOptions(logger);
  if (choice.kind === 'direct')
    // Runners share the checkpoint. Each of them sees every invocation, and the claim lets one run it.
    return createDirectInvocationFeed({
      ...delivery,
      store,
      checkpoints: createFeedCheckpoints(pool, 'runner'),
      toInvocation,
    });
  // The Kafka client is loaded only when it is used.
  const { createKafkaInvocationFeed } = await import('@token-vault/invocation-feed/kafka');
  return createKafkaInvocationFeed({
    ...delivery,
    connection: connectionOf(choice),
    topic: choice.topic,
    groupId: `${choice.topic}.runners`,
  });
}

/** Copies invocations from the log to the topic. It creates a missing topic. */
export function createRelay(choice: KafkaChoice, { store, pool, logger }: FeedParts): InvocationRelay {
  const { topic } = choice;
  const connection = connectionOf(choice);
  return {
    async run(signal) {
      const { createInvocationTopics, createKafkaInvocationRelay } =
        await import('@token-vault/invocation-feed/kafka');
      await createInvocationTopics({ connection, topic });
      const relay = createKafkaInvocationRelay({
        connection,
        topic,
        store,
        checkpoints: createFeedCheckpoints(pool, 'relay'),
        toInvocation,
        onTrouble: (error) => logger.warn(errorFields(error), 'the relay of invocations has failed'),
      });
      await relay.run(signal);
    },
  };
}
