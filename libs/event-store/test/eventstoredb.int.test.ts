import { createEventStoreDbEventStore } from '@token-vault/event-store/eventstoredb';
import { describeEventStoreContract } from '@token-vault/event-store/contract-suite';
import { startEventStoreDbDouble } from '@token-vault/test-doubles/eventstoredb';

describeEventStoreContract('the EventStoreDB event store, on the protocol double', async () => {
  // As a server does after 2 s; sooner, for the sake of the suite.
  const double = await startEventStoreDbDouble({ faults: { commitTimeoutMs: 200 } });
  const { connectionString } = double;
  return {
    // 1500 calls at once wait for their turn longer than by default where tests share a machine.
    open: (registry) => createEventStoreDbEventStore({ connectionString, registry, deadlineMs: 60_000 }),
    cutConnections: async () => double.cutConnections(),
    largestEventBytes: 900_000,
    drop: () => double.close(),
  };
});
