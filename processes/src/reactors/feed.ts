import type { EventStore } from '@token-vault/event-store';
import type { InvocationFeed, InvocationRelay } from '@token-vault/invocations';
import { createDirectInvocationFeed } from '@token-vault/invocations/direct';
import { createFeedCheckpoints, deliveryOptions, toInvocation } from '@token-vault/reactor-runner';
import { errorFields, type Logger } from '@token-vault/service-kit';
import type { Pool } from 'pg';

/** How due invocations come to a runner: straight from the log, or by a Kafka topic. */
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
    // Several runners share the checkpoint: each sees every invocation, and the claim lets one run it.
    return createDirectInvocationFeed({
      ...delivery,
      store,
      checkpoints: createFeedCheckpoints(pool, 'runner'),
      toInvocation,
    });
  // Its client is for those who use it.
  const { createKafkaInvocationFeed } = await import('@token-vault/invocations/kafka');
  return createKafkaInvocationFeed({
    ...delivery,
    connection: connectionOf(choice),
    topic: choice.topic,
    groupId: `${choice.topic}.runners`,
  });
}

/** Brings invocations from the log to the topic, which it makes if it is not there. */
export function createRelay(choice: KafkaChoice, { store, pool, logger }: FeedParts): InvocationRelay {
  const { topic } = choice;
  const connection = connectionOf(choice);
  return {
    async run(signal) {
      const { createInvocationTopics, createKafkaInvocationRelay } =
        await import('@token-vault/invocations/kafka');
      await createInvocationTopics({ connection, topic });
      const relay = createKafkaInvocationRelay({
        connection,
        topic,
        store,
        checkpoints: createFeedCheckpoints(pool, 'relay'),
        toInvocation,
        onTrouble: (error) => logger.warn(errorFields(error), 'the relay of invocations has trouble'),
      });
      await relay.run(signal);
    },
  };
}
