import { randomUUID } from 'node:crypto';
import {
  ApplicationCreated,
  ApplicationDeleted,
  ApplicationUpdated,
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
import { describe, expect, it } from 'vitest';
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
      async (revision) => (await refuse(tenantId, { reactorId: reactor_id, revision }, now)) !== undefined,
    ),
  );
  expect(refused).toEqual([true, true, false]);
  // Somebody hides an event.
  const hiding: typeof store = {
    ...store,
    async *readStream(...range) {
      for await (const event of store.readStream(...range)) if (event.revision !== 1) yield event;
    },
  };
  const deceived = createOwnerDecision({ store: hiding, keyRing, clock: { now: () => now } });
  await expect(deceived(tenantId, { reactorId: reactor_id, revision: 0 }, now)).rejects.toMatchObject({
    code: 'record_altered',
  });
});

describe('a reactor whose application has ended', () => {
  const at = (seconds: number) => new Date(now.getTime() + seconds * 1_000);
  const application = (id: string, expires_at?: string) =>
    newEvent(
      ApplicationCreated,
      {
        application_id: id,
        name: 'a',
        type: 'private',
        key_hash: 'ab'.repeat(32),
        permissions: [],
        rules: [],
        ...(expires_at === undefined ? {} : { expires_at }),
      },
      made(),
    );
  const deletion = (id: string) => {
    const { id: eventId, metadata: by } = {
      ...made(),
      metadata: { ...metadata, occurred_at: at(10).toISOString() },
    };
    return newEvent(ApplicationDeleted, { application_id: id }, { id: eventId, metadata: by });
  };

  it.each([
    ['was deleted', (id: string) => [application(id), deletion(id)]],
    ['has expired', (id: string) => [application(id, at(10).toISOString())]],
  ])(
    'because it %s is refused to runs that were asked for before, not to later ones',
    async (_how, events) => {
      const store = createMemoryEventStore({ registry: eventRegistry });
      const reactor = newEvent(ReactorCreated, content(first), made());
      await store.append(streams.reactor(tenantId, reactor_id), [reactor], 'no-stream');
      await store.append(streams.application(tenantId, first), events(first), 'no-stream');
      const refuse = createOwnerDecision({ store, keyRing: {} as KeyRing, clock: { now: () => at(20) } });
      const refused = async (since: Date) =>
        (await refuse(tenantId, { reactorId: reactor_id, revision: 0 }, since)) !== undefined;
      expect([await refused(at(9)), await refused(at(11))]).toEqual([true, false]);
    },
  );

  it('is found by the first and the last event of the application, however many it has', async () => {
    const log = createMemoryEventStore({ registry: eventRegistry });
    const reactor = newEvent(ReactorCreated, content(first), made());
    await log.append(streams.reactor(tenantId, reactor_id), [reactor], 'no-stream');
    const changed = () =>
      newEvent(ApplicationUpdated, { application_id: first, name: 'a', permissions: [], rules: [] }, made());
    const events = [application(first), ...Array.from({ length: 120 }, changed), deletion(first)];
    const stream = streams.application(tenantId, first);
    await log.append(stream, events, 'no-stream');
    let count = 0;
    const store = {
      ...log,
      async *readStream(...read: Parameters<typeof log.readStream>) {
        for await (const event of log.readStream(...read)) {
          if (event.stream === stream) count += 1;
          yield event;
        }
      },
    };
    const refuse = createOwnerDecision({ store, keyRing: {} as KeyRing, clock: { now: () => at(20) } });
    expect(await refuse(tenantId, { reactorId: reactor_id, revision: 0 }, at(9))).toBeDefined();
    expect(count).toBe(2);
  });
});
