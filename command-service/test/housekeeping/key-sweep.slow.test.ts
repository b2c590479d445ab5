import { eventRegistry } from '@token-vault/contracts';
import { dataKeyTable } from '@token-vault/crypto';
import { createEventStoreDbEventStore } from '@token-vault/event-store/eventstoredb';
import { createEventStoreSchema, createPostgresEventStore } from '@token-vault/event-store/postgres';
import { hasDouble, startEventStoreDouble } from '@token-vault/test-support';
import { afterAll } from 'vitest';
import { describeKeySweep } from './key-sweep-suite.ts';

const registry = eventRegistry;

describeKeySweep('in Postgres', {
  durability: 'follows-log',
  async openLog(connectionString) {
    await createEventStoreSchema({ connectionString });
    return createPostgresEventStore({ registry, connection: { connectionString }, keyTable: dataKeyTable });
  },
});

const double = await startEventStoreDouble();
afterAll(() => double.stop());
const { connectionString } = double;

describeKeySweep('in EventStoreDB', {
  openLog: () => Promise.resolve(createEventStoreDbEventStore({ registry, connectionString })),
  writeForeignEvents: hasDouble ? () => double.tell('foreign 1500') : undefined,
});
