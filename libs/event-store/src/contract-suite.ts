import { afterAll, beforeAll, describe } from 'vitest';
import { describeAppending } from './contract-suite/appending.ts';
import { describeConcurrency } from './contract-suite/concurrency.ts';
import { describeConsistentReads } from './contract-suite/consistent-reads.ts';
import { describeGrouping } from './contract-suite/grouping.ts';
import { describeReading } from './contract-suite/reading.ts';
import { describeStored } from './contract-suite/stored.ts';
import { describeSubscribing } from './contract-suite/subscribing.ts';
import { Fixture } from './contract-suite/fixture.ts';
import type { EventStoreSubject } from './contract-suite/subject.ts';

export type { EventStoreSubject } from './contract-suite/subject.ts';

/** The contract of every event store (see `EventStore`), as vitest tests. */
export function describeEventStoreContract(
  name: string,
  createSubject: () => Promise<EventStoreSubject>,
): void {
  describe(name, () => {
    const fixture = new Fixture();
    beforeAll(async () => fixture.start(await createSubject()));
    afterAll(() => fixture.end());
    describeAppending(fixture);
    describeGrouping(fixture);
    describeReading(fixture);
    describeConsistentReads(fixture);
    describeStored(fixture);
    describeSubscribing(fixture);
    describeConcurrency(fixture);
  });
}
