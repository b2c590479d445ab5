import { EntitiesRead, eventRegistry, idFrom, streams } from '@token-vault/contracts';
import { createEventStoreDbEventStore } from '@token-vault/event-store/eventstoredb';
import { createAuditTrail, createRequestContext } from '@token-vault/operations';
import { startEventStoreDouble, type EventStoreDouble } from '@token-vault/test-support';
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createFingerprintClaims } from '../../src/tokens/fingerprint-claims.ts';

const now = new Date('2030-01-01T00:00:00Z');
const tenantId = randomUUID();

/** Of an attempt at one request: each attempt makes the same ids. */
const attempt = () =>
  createRequestContext({
    principal: {
      tenant: { id: tenantId, plan: 'standard', settings: {} },
      actor: { kind: 'application', id: idFrom('caller') },
      applicationId: idFrom('caller'),
      applicationType: 'public',
      permissions: [],
      rules: [],
    },
    traceId: randomUUID(),
    now,
    idempotencyScope: [tenantId, 'one key'],
  });

// EventStoreDB takes an event whose id the stream has as stored, whatever its data.
describe('a request that is repeated under its key with another body', () => {
  let double: EventStoreDouble;
  let store: ReturnType<typeof createEventStoreDbEventStore>;
  beforeAll(async () => {
    double = await startEventStoreDouble();
    store = createEventStoreDbEventStore({
      connectionString: double.connectionString,
      registry: eventRegistry,
    });
  });
  afterAll(async () => {
    await store.close();
    await double.stop();
  });

  it('has a record for what each attempt has shown', async () => {
    const audit = createAuditTrail(store);
    for (const id of ['one', 'other'])
      await audit.record(attempt(), EntitiesRead, {
        entity_type: 'reactor',
        operation: 'read',
        entity_ids: [id],
      });
    const read: unknown[] = [];
    for await (const { data } of store.readStream(streams.access(tenantId, '2030-01-01'))) read.push(data);
    expect(read).toEqual([
      expect.objectContaining({ entity_ids: ['one'] }),
      expect.objectContaining({ entity_ids: ['other'] }),
    ]);
  });

  it('claims the fingerprint for the token of each attempt', async () => {
    const claims = createFingerprintClaims(store);
    for (const id of ['one', 'other']) await claims.claim(attempt(), 'fingerprint', id);
    const { claimants } = await claims.read(tenantId, 'fingerprint');
    expect([...claimants.keys()]).toEqual(['one', 'other']);
  });
});
