import { Kafka, logLevel, Partitioners, type KafkaConfig, type Producer } from 'kafkajs';

/** Brokers, TLS, credentials, log: the options of kafkajs. Without a `logLevel` kafkajs logs nothing. */
export type KafkaConnection = KafkaConfig;

export function createClient(connection: KafkaConnection): Kafka {
  return new Kafka({ logLevel: logLevel.NOTHING, ...connection });
}

/** The broker writes a message once, also when the producer repeats it, and answers when all replicas in sync have it. */
export function createProducer(connection: KafkaConnection): Producer {
  return createClient(connection).producer({
    idempotent: true,
    maxInFlightRequests: 1,
    allowAutoTopicCreation: false,
    createPartitioner: Partitioners.DefaultPartitioner,
    // The callers repeat by themselves, with a new producer.
    retry: { retries: 5 },
  });
}
