import { randomUUID } from 'node:crypto';
import {
  createInvocationTopics,
  createKafkaInvocationFeed,
  type KafkaInvocationFeedOptions,
} from '@token-vault/invocation-feed/kafka';
import { Kafka, logLevel, Partitioners, type KafkaConfig } from 'kafkajs';
import type { DeliveryOptions, Invocation, InvocationFeed } from '../src/port.ts';
import { invocationMessage } from '../src/kafka/message.ts';

/** A topic and a consumer group of their own. */
export interface KafkaSubject {
  readonly connection: KafkaConfig;
  readonly topic: string;
  readonly groupId: string;
  readonly client: Kafka;
  publish(invocations: readonly Invocation[]): Promise<void>;
  publishRaw(key: string, value: string): Promise<void>;
  open(options: DeliveryOptions & Partial<KafkaInvocationFeedOptions>): InvocationFeed;
  /** The number of messages in the topic. The producer of the test may send one twice when its answer is late. */
  count(): Promise<number>;
  /** The committed offsets of the group, by partition; -1 where no offset was committed. */
  committed(): Promise<number[]>;
  /** The messages of a topic, once there are so many. */
  messages(
    topic: string,
    count: number,
  ): Promise<{ key: string; value: string; headers: Record<string, string> }[]>;
}

/** Short times, so that sessions end during a test. */
export const sessionTimeoutMs = 3_000;

export async function createKafkaSubject(brokers: readonly string[], partitions = 4): Promise<KafkaSubject> {
  const connection: KafkaConfig = {
    brokers: [...brokers],
    clientId: 'test',
    retry: { initialRetryTime: 50, retries: 8 },
  };
  const [topic, groupId] = [`invocations-${randomUUID()}`, `runners-${randomUUID()}`];
  const client = new Kafka({ ...connection, logLevel: logLevel.NOTHING });
  await createInvocationTopics({ connection, topic, partitions, replicationFactor: 1 });
  const send = async (messages: { key: string; value: string }[]) => {
    const producer = client.producer({ createPartitioner: Partitioners.DefaultPartitioner });
    await producer.connect();
    await producer.send({ topic, messages });
    await producer.disconnect();
  };
  return {
    connection,
    topic,
    groupId,
    client,
    publish: (due) =>
      send(due.map((invocation) => invocationMessage(invocation) as { key: string; value: string })),
    publishRaw: (key, value) => send([{ key, value }]),
    open: (options) =>
      createKafkaInvocationFeed({
        connection,
        topic,
        groupId,
        sessionTimeoutMs,
        heartbeatIntervalMs: 300,
        commitIntervalMs: 50,
        ...options,
      }),
    async count() {
      const admin = client.admin();
      await admin.connect();
      const offsets = await admin.fetchTopicOffsets(topic);
      await admin.disconnect();
      return offsets.reduce((sum, { high }) => sum + Number(high), 0);
    },
    async committed() {
      const admin = client.admin();
      await admin.connect();
      const [offsets] = await admin.fetchOffsets({ groupId, topics: [topic] });
      await admin.disconnect();
      return (offsets?.partitions ?? []).map(({ offset }) => Number(offset));
    },
    messages: (name, count) => readMessages(client, name, count),
  };
}

async function readMessages(client: Kafka, topic: string, count: number) {
  const found: { key: string; value: string; headers: Record<string, string> }[] = [];
  const consumer = client.consumer({ groupId: `reader-${randomUUID()}` });
  const enough = Promise.withResolvers<void>();
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    eachMessage: async ({ message: { key, value, headers = {} } }) => {
      const texts = Object.entries(headers).map(([name, header]) => [name, String(header)] as const);
      found.push({ key: String(key), value: String(value), headers: Object.fromEntries(texts) });
      if (found.length >= count) enough.resolve();
    },
  });
  await enough.promise;
  await consumer.disconnect();
  return found;
}
