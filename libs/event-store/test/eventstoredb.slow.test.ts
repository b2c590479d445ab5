import { createEventStoreDbEventStore } from '@token-vault/event-store/eventstoredb';
import { describeEventStoreContract } from '@token-vault/event-store/contract-suite';
import { startEventStoreDbDouble } from '@token-vault/test-doubles/eventstoredb';

describeEventStoreContract('the EventStoreDB event store, on the protocol double', async () => {
  // A real server aborts after 2 s; the double aborts sooner, so that the suite is fast.
  const double = await startEventStoreDbDouble({ faults: { commitTimeoutMs: 200 } });
  const { connectionString } = double;
  return {
    // On a shared machine, 1500 concurrent calls wait for their turn longer than the default allows.
    open: (registry) => createEventStoreDbEventStore({ connectionString, registry, deadlineMs: 60_000 }),
    cutConnections: async () => double.cutConnections(),
    largestEventBytes: 900_000,
    drop: () => double.close(),
  };
});
