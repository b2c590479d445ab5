import { createEventStoreDbEventStore } from '@token-vault/event-store/eventstoredb';
import { describeEventStoreContract } from '@token-vault/event-store/contract-suite';
import { waitUntil } from '@token-vault/test-support';
import { describe, it } from 'vitest';
import { testRegistry } from '../src/contract-suite/test-events.ts';
import { realServer } from './eventstoredb-server.ts';

const server = realServer();

if ('missing' in server) {
  describe('the EventStoreDB event store, on a real server', () => {
    it.skip(`keeps its contract (not run: ${server.missing})`);
  });
} else {
  const { connectionString } = server;
  describeEventStoreContract('the EventStoreDB event store, on a real server', async () => {
    const probe = createEventStoreDbEventStore({
      connectionString,
      registry: testRegistry,
      deadlineMs: 1_000,
    });
    await waitUntil(() => probe.head().then(() => true), {
      timeoutMs: 50_000,
      what: 'an answer of the server',
    });
    await probe.close();
    return {
      open: (registry) => createEventStoreDbEventStore({ connectionString, registry, deadlineMs: 60_000 }),
      largestEventBytes: 900_000,
      drop: async () => undefined,
    };
  });
}
