import type { EventStore } from '@token-vault/event-store';
import type { InvocationFeed, InvocationRelay } from '@token-vault/invocations';
import { createDirectInvocationFeed } from '@token-vault/invocations/direct';
import {
  createInvocationTopics,
  createKafkaInvocationFeed,
  createKafkaInvocationRelay,
} from '@token-vault/invocations/kafka';
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

export function createFeed(choice: FeedChoice, { store, pool, logger }: FeedParts): InvocationFeed {
  const delivery = deliveryOptions(logger);
  if (choice.kind === 'direct')
    // Several runners share the checkpoint: each sees every invocation, and the claim lets one run it.
    return createDirectInvocationFeed({
      ...delivery,
      store,
      checkpoints: createFeedCheckpoints(pool, 'runner'),
      toInvocation,
    });
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
  const relay = createKafkaInvocationRelay({
    connection,
    topic,
    store,
    checkpoints: createFeedCheckpoints(pool, 'relay'),
    toInvocation,
    onTrouble: (error) => logger.warn(errorFields(error), 'the relay of invocations has trouble'),
  });
  return {
    async run(signal) {
      await createInvocationTopics({ connection, topic });
      await relay.run(signal);
    },
  };
}
