import { createPostgresEventStore } from '@token-vault/event-store/postgres';
import { describeEventStoreContract } from '@token-vault/event-store/contract-suite';
import { createTestLog, cutConnections } from './postgres-log.ts';

describeEventStoreContract('the Postgres event store', async () => {
  const { url, drop } = await createTestLog();
  const connection = { connectionString: url };
  return {
    open: (registry) => createPostgresEventStore({ connection, registry }),
    cutConnections: () => cutConnections(url),
    drop,
  };
});

// Subscribers often fall behind the recent events, and change between these and the log.
describeEventStoreContract('the Postgres event store that keeps few recent events', async () => {
  const { url, drop } = await createTestLog();
  const connection = { connectionString: url };
  return {
    open: (registry) =>
      createPostgresEventStore({ connection, registry, maxRecentEvents: 5, maxReadConnections: 2 }),
    cutConnections: () => cutConnections(url),
    drop,
  };
});
