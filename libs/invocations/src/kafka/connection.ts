import { Kafka, logLevel, Partitioners, type KafkaConfig, type Producer } from 'kafkajs';

/** Brokers, TLS, credentials, log: as kafkajs takes them. Without a `logLevel` kafkajs says nothing. */
export type KafkaConnection = KafkaConfig;

export function createClient(connection: KafkaConnection): Kafka {
  return new Kafka({ logLevel: logLevel.NOTHING, ...connection });
}

/** A message is written once however often the producer has to repeat itself, and is answered by all replicas in sync. */
export function createProducer(connection: KafkaConnection): Producer {
  return createClient(connection).producer({
    idempotent: true,
    maxInFlightRequests: 1,
    allowAutoTopicCreation: false,
    createPartitioner: Partitioners.DefaultPartitioner,
    // The callers here repeat by themselves, with a new producer.
    retry: { retries: 5 },
  });
}
