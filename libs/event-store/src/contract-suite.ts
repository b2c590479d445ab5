import type { EventRegistry } from '@token-vault/contracts';
import { afterAll, beforeAll, describe } from 'vitest';
import { describeAppending } from './contract-suite/appending.ts';
import { describeConcurrency } from './contract-suite/concurrency.ts';
import { describeReading } from './contract-suite/reading.ts';
import { describeSubscribing } from './contract-suite/subscribing.ts';
import { Fixture } from './contract-suite/fixture.ts';
import type { EventStore } from './port.ts';

/** One log, and the ways to reach it. Tests use streams of their own, so one log serves the whole suite. */
export interface EventStoreSubject {
  /** A store on this log: each is to the others as another process. */
  open(registry: EventRegistry): EventStore;
  /** Breaks every connection that stores have to the log; new ones succeed. Without it those tests are left out. */
  readonly cutConnections?: () => Promise<void>;
  /** Size of the largest event the suite stores; 8 MiB by default. */
  readonly largestEventBytes?: number;
  drop(): Promise<void>;
}

/** What every event store promises (see `EventStore`), told to vitest. */
export function describeEventStoreContract(
  name: string,
  createSubject: () => Promise<EventStoreSubject>,
): void {
  describe(name, () => {
    const fixture = new Fixture();
    beforeAll(async () => fixture.start(await createSubject()));
    afterAll(() => fixture.end());
    describeAppending(fixture);
    describeReading(fixture);
    describeSubscribing(fixture);
    describeConcurrency(fixture);
  });
}
