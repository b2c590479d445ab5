import type { DeliveryOptions } from '../port.ts';
import type { KafkaConnection } from './connection.ts';

export interface KafkaInvocationFeedOptions extends DeliveryOptions {
  readonly connection: KafkaConnection;
  readonly topic: string;
  /** The runners of one group share the partitions. */
  readonly groupId: string;
  /** The time without a heartbeat after which other members take over; 10 000 by default. */
  readonly sessionTimeoutMs?: number;
  /** A tenth of the session's time-out by default. Heartbeats are also sent while handlers run, however long they take. */
  readonly heartbeatIntervalMs?: number;
  /** Maximum number of taken and unfinished messages of a partition; 200 by default. */
  readonly maxUnfinishedPerPartition?: number;
  /** How often finished messages are acknowledged to the broker; 500 by default. */
  readonly commitIntervalMs?: number;
}
