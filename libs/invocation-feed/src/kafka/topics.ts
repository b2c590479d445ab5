import { createClient, type KafkaConnection } from './connection.ts';

export interface InvocationTopicsOptions {
  readonly connection: KafkaConnection;
  readonly topic: string;
  /** Maximum number of runners that can share the work; 12 by default. Never reduced, and not changed once the topic exists. */
  readonly partitions?: number;
  /** The broker's default when missing. */
  readonly replicationFactor?: number;
}

/** The topic for invocations of `topic` that were given up. */
export function deadLetterTopic(topic: string): string {
  return `${topic}.dead-letters`;
}

/** Creates the topics that do not exist yet. */
export async function createInvocationTopics(options: InvocationTopicsOptions): Promise<void> {
  const { connection, topic, partitions = 12, replicationFactor = -1 } = options;
  const admin = createClient(connection).admin();
  await admin.connect();
  try {
    await admin.createTopics({
      waitForLeaders: true,
      topics: [
        { topic, numPartitions: partitions, replicationFactor },
        { topic: deadLetterTopic(topic), numPartitions: 1, replicationFactor },
      ],
    });
  } finally {
    await admin.disconnect();
  }
}
