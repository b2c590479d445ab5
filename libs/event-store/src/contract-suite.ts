import { afterAll, beforeAll, describe } from 'vitest';
import { describeAppending } from './contract-suite/appending.ts';
import { describeConcurrency } from './contract-suite/concurrency.ts';
import { describeReading } from './contract-suite/reading.ts';
import { describeSubscribing } from './contract-suite/subscribing.ts';
import { Fixture } from './contract-suite/fixture.ts';
import type { EventStoreSubject } from './contract-suite/subject.ts';

export type { EventStoreSubject } from './contract-suite/subject.ts';

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
