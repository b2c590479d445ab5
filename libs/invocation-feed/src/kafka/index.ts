export { createKafkaInvocationFeed } from './kafka-invocation-feed.ts';
export type { KafkaInvocationFeedOptions } from './options.ts';
export { createKafkaInvocationRelay, type KafkaInvocationRelayOptions } from './kafka-invocation-relay.ts';
export { createInvocationTopics, deadLetterTopic, type InvocationTopicsOptions } from './topics.ts';
export type { KafkaConnection } from './connection.ts';
