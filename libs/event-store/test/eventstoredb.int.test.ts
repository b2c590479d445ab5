import { createEventStoreDbEventStore } from '@token-vault/event-store/eventstoredb';
import { describeEventStoreContract } from '@token-vault/event-store/contract-suite';
import { startEventStoreDbDouble } from '@token-vault/test-doubles/eventstoredb';

describeEventStoreContract('the EventStoreDB event store, on the protocol double', async () => {
  const double = await startEventStoreDbDouble();
  const { connectionString } = double;
  return {
    // 1500 calls at once wait for their turn longer than by default where tests share a machine.
    open: (registry) => createEventStoreDbEventStore({ connectionString, registry, deadlineMs: 60_000 }),
    cutConnections: async () => double.cutConnections(),
    largestEventBytes: 900_000,
    drop: () => double.close(),
  };
});
