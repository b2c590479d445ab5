import type { EventRegistry } from '@token-vault/contracts';
import type { EventStore } from '../port.ts';

/** One log and the ways to open it. Tests use streams of their own, so one log serves the whole suite. */
export interface EventStoreSubject {
  /** A store on this log. To the other stores it acts like another process. */
  open(registry: EventRegistry): EventStore;
  /** Breaks all connections of stores to the log; new connections succeed. If absent, tests that cut connections are skipped. */
  readonly cutConnections?: () => Promise<void>;
  /** Size of the largest event the suite stores; 8 MiB by default. */
  readonly largestEventBytes?: number;
  drop(): Promise<void>;
}
