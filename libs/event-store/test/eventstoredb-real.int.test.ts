import { createEventStoreDbEventStore } from '@token-vault/event-store/eventstoredb';
import { describeEventStoreContract } from '@token-vault/event-store/contract-suite';
import { hasDouble, startEventStoreDouble, waitUntil } from '@token-vault/test-support';
import { describe, it } from 'vitest';
import { testRegistry } from '../src/contract-suite/test-events.ts';

// On the server of EVENTSTOREDB_URL (an `esdb://…` whose log the tests may write to; `npm run test:containers` starts such servers), or on one
// that the program of EVENTSTOREDB_SERVER starts.

if (hasDouble) {
  describe('the EventStoreDB event store, on a real server', () => {
    it.skip('keeps its contract (not run: EVENTSTOREDB_URL and EVENTSTOREDB_SERVER are not set)');
  });
} else {
  describeEventStoreContract('the EventStoreDB event store, on a real server', async () => {
    const server = await startEventStoreDouble();
    const { connectionString } = server;
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
      drop: () => server.stop(),
    };
  });
}
