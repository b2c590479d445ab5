import { randomUUID } from 'node:crypto';
import {
  eventRegistry,
  newEvent,
  ReactorCreated,
  ReactorSigned,
  ReactorUpdated,
  streams,
  type SealedValue,
} from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import { createMemoryEventStore } from '@token-vault/event-store/memory';
import { expect, it } from 'vitest';
import { createOwnerDecision } from '../../src/index.ts';

const tenantId = randomUUID();
const reactor_id = randomUUID();
const [first, second] = [randomUUID(), randomUUID()];
const now = new Date('2030-01-01T00:00:00.000Z');
const configuration = `sv1.${randomUUID()}.${'A'.repeat(60)}` as SealedValue;
const metadata = {
  tenant_id: tenantId,
  actor: { kind: 'application' as const, id: first },
  trace_id: 't',
  correlation_id: 't',
  occurred_at: now.toISOString(),
};
const content = (application_id: string) => ({
  reactor_id,
  name: 'r',
  code: 'c',
  configuration,
  application_id,
});
const made = () => ({ id: randomUUID(), metadata });
const signature = 'm1.1.Q2hhbmdlZCBieSBub2JvZA';

it('a reactor of an upgraded log is refused to runs from before it got another application, not to later ones', async () => {
  const store = createMemoryEventStore({ registry: eventRegistry });
  const stream = streams.reactor(tenantId, reactor_id);
  await store.append(
    stream,
    [
      newEvent(ReactorCreated, content(first), made()),
      { ...newEvent(ReactorSigned, { reactor_id }, made()), data: { reactor_id, signature } },
      newEvent(ReactorUpdated, content(second), made()),
    ],
    'no-stream',
  );
  const keyRing = {} as KeyRing;
  const refuse = createOwnerDecision({ store, keyRing, clock: { now: () => now } });
  const refused = await Promise.all(
    [0, 1, 2].map(
      async (revision) => (await refuse(tenantId, { reactorId: reactor_id, revision })) !== undefined,
    ),
  );
  expect(refused).toEqual([true, true, false]);
});
