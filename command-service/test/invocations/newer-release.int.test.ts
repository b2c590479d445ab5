import { randomUUID } from 'node:crypto';
import {
  eventRegistry,
  EventRegistry,
  newEvent,
  ReactorInvoked,
  ReactorStarted,
  ReactorSucceeded,
  streams,
  TokenDeleted,
  type EventMetadata,
  type SealedValue,
  type VaultEvent,
} from '@token-vault/contracts';
import type { EventStore } from '@token-vault/event-store';
import { createMemoryEventStore, createMemoryEventLog } from '@token-vault/event-store/memory';
import { silentLogger } from '@token-vault/observability';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { createInvocationOutcomes } from '../../src/index.ts';

const tenantId = randomUUID();
const metadata: EventMetadata = {
  tenant_id: tenantId,
  actor: { kind: 'application', id: randomUUID() },
  trace_id: 't',
  correlation_id: 't',
  occurred_at: '2030-01-01T00:00:00.000Z',
};
const sealed = `sv1.${randomUUID()}.${'A'.repeat(60)}` as SealedValue;
const deleted = { token_id: 't', token_type: 'token', key_ids: [] };
/** An event type of the next release. */
const praised = (): VaultEvent => {
  const event = newEvent(TokenDeleted, deleted, { id: randomUUID(), metadata });
  return { ...event, type: 'TokenPraised', version: 1 } as unknown as VaultEvent;
};

it('outcomes are received after events of a newer release, also when they arrive together with them', async () => {
  const log = createMemoryEventLog();
  const older = createMemoryEventStore({ registry: eventRegistry, log });
  const newer = createMemoryEventStore({
    registry: new EventRegistry([
      ...eventRegistry.definitions,
      { ...TokenDeleted, type: 'TokenPraised', version: 1, upcasters: [] },
    ]),
    log,
  });
  let passes = 0;
  const store: EventStore = {
    ...older,
    subscribe: (...from) => {
      passes += 1;
      return older.subscribe(...from);
    },
  };
  const outcomes = createInvocationOutcomes({ store, logger: silentLogger });
  onTestFinished(() => outcomes.close());
  const unreadable = streams.invocation(tenantId, randomUUID());
  await outcomes.expect(randomUUID(), unreadable);
  await newer.append(unreadable, [praised()], 'any');
  for (let round = 0; round < 5; round += 1) {
    const ids = { invocation_id: randomUUID(), reactor_id: randomUUID() };
    const stream = streams.invocation(tenantId, ids.invocation_id);
    const awaited = await outcomes.expect(ids.invocation_id, stream);
    const append = (event: VaultEvent) => newer.append(stream, [event], 'any');
    const at = () => ({ id: randomUUID(), metadata });
    const invoked = {
      reactor_revision: 0,
      mode: 'sync',
      args: sealed,
      token_ids: [],
      timeout_ms: 1,
      depth: 0,
    } as const;
    await append(newEvent(ReactorInvoked, { ...ids, ...invoked }, at()));
    await append(newEvent(ReactorStarted, { ...ids, runner_id: 'r', deadline: metadata.occurred_at }, at()));
    await newer.append('elsewhere', [praised()], 'any');
    await append(
      newEvent(ReactorSucceeded, { ...ids, mode: 'sync', result: sealed, seen_token_ids: [] }, at()),
    );
    await newer.append('elsewhere', [praised()], 'any');
    await expect(awaited.arrived).resolves.toMatchObject({ type: 'ReactorSucceeded', data: ids });
    awaited.forget();
  }
  // Each event is passed once: the subscription does not stop at the stream that cannot be read. A subscription that begins again and
  // again would pass many events within 200 ms.
  const before = passes;
  await delay(200);
  expect(passes - before).toBeLessThanOrEqual(2);
});
