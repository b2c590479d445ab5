import { randomUUID } from 'node:crypto';
import { eventRegistry, newEvent, type VaultEvent } from '@token-vault/contracts';
import { startPosition, type EventStore } from '@token-vault/event-store';
import { createEventStoreDbEventStore } from '@token-vault/event-store/eventstoredb';
import { waitUntil } from '@token-vault/test-support';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Cluster, eventStoreImages, missingEngine } from './engine.ts';

const missing = await missingEngine();
const clustered = eventStoreImages.slice(0, 2);

/** Longer than the servers need to notice, and to elect a leader. */
const cutOffMs = 15_000;

/** An event of the vault that needs nothing else. */
function anyEvent(): VaultEvent {
  const tenantId = randomUUID();
  const metadata = {
    tenant_id: tenantId,
    actor: { kind: 'system', id: 'partitions' },
    trace_id: 'partitions',
    correlation_id: 'partitions',
    occurred_at: new Date().toISOString(),
  } as const;
  const name = { type: 'TenantDeleted', version: 1 } as const;
  return newEvent(name, { tenant_id: tenantId }, { id: randomUUID(), metadata });
}

/** Appends until `signal` aborts, with a pause after each failure. Adds the ids of the acknowledged events to `acknowledged`. */
async function write(store: EventStore, signal: AbortSignal, acknowledged: Set<string>): Promise<void> {
  while (!signal.aborted) {
    const event = anyEvent();
    const stored = await store.append(`test-${event.id}`, [event], 'no-stream').catch(() => undefined);
    if (stored) acknowledged.add(event.id);
    else await sleep(200);
  }
}

describe.skipIf(missing).each(clustered)(
  `three nodes of %s${missing ? ` (skipped: ${missing})` : ''}`,
  (image) => {
    let cluster: Cluster;
    let store: EventStore;
    beforeAll(async () => {
      cluster = await Cluster.start(image);
      const { connectionString } = cluster;
      store = createEventStoreDbEventStore({ registry: eventRegistry, connectionString });
      await waitUntil(
        () =>
          store.head().then(
            () => true,
            () => false,
          ),
        { timeoutMs: 120_000 },
      );
    }, 600_000);
    afterAll(async () => {
      await store.close();
      await cluster.stop();
    }, 120_000);

    it('keep every acknowledged write while each node in turn is cut off from the network', async () => {
      const end = new AbortController();
      const acknowledged = new Set<string>();
      const writers = Array.from({ length: 8 }, () => write(store, end.signal, acknowledged));
      for (let node = 0; node < cluster.size; node++) {
        await cluster.disconnect(node);
        await sleep(cutOffMs);
        const before = acknowledged.size;
        await waitUntil(() => acknowledged.size > before, {
          timeoutMs: 60_000,
          what: 'writes without a node',
        });
        await cluster.reconnect(node);
        // The node must have copied the events that it lacks before the next node is cut off. It does not report that.
        await sleep(cutOffMs);
      }
      end.abort();
      await Promise.all(writers);
      const kept = new Set<string>();
      for await (const { id } of store.readAll(startPosition)) kept.add(id);
      expect([...acknowledged].filter((id) => !kept.has(id))).toEqual([]);
    });
  },
);
