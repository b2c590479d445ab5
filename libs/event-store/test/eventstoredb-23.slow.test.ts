import { createEventStoreDbEventStore } from '@token-vault/event-store/eventstoredb';
import { describeEventStoreContract } from '@token-vault/event-store/contract-suite';
import { startEventStoreDbDouble } from '@token-vault/test-doubles/eventstoredb';

describeEventStoreContract('the EventStoreDB event store, on the protocol double as 23.10', async () => {
  const double = await startEventStoreDbDouble({ faults: { commitTimeoutMs: 200, dropsSlowReaders: true } });
  const { connectionString } = double;
  return {
    open: (registry) => createEventStoreDbEventStore({ connectionString, registry, deadlineMs: 60_000 }),
    cutConnections: async () => double.cutConnections(),
    largestEventBytes: 900_000,
    drop: () => double.close(),
  };
});
