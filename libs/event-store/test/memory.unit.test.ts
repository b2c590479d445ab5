import { createMemoryEventLog, createMemoryEventStore } from '@token-vault/event-store/memory';
import { describeEventStoreContract } from '@token-vault/event-store/contract-suite';

describeEventStoreContract('the memory event store', async () => {
  const log = createMemoryEventLog();
  return { open: (registry) => createMemoryEventStore({ registry, log }), drop: async () => undefined };
});
