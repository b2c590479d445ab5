import { startEventStoreDbDouble, type EventStoreDbDouble } from '../doubles/eventstoredb/index.ts';
import {
  createDataDirectory,
  createTestDatabase,
  removeDataDirectory,
  spawnStandalone,
} from '@token-vault/test-support';
import { migrate } from '@token-vault/processes/migrations';
import { schema } from '@token-vault/processes';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';

// Always the double: a server of EVENTSTOREDB_SERVER has no accounts.
let double: EventStoreDbDouble;
let dataDir: string;

beforeAll(async () => {
  dataDir = await createDataDirectory();
  double = await startEventStoreDbDouble({
    accounts: { writer: { password: 'right', mayReadAll: false } },
  });
});
afterAll(async () => {
  await double.close();
  await removeDataDirectory(dataDir);
});

async function complaintOf(script: string, account: string): Promise<string> {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  await migrate(database.url, schema);
  const started = spawnStandalone({
    dataDir,
    script,
    env: {
      DATABASE_URL: database.url,
      EVENT_STORE: 'eventstoredb',
      EVENTSTOREDB_URL: double.connectionStringFor(account),
      VAULT_LOG_LEVEL: 'warn',
    },
  });
  expect(await started.exited).toEqual({ code: 1, signal: null });
  expect(started.errors()).not.toContain('wrong');
  return started.errors();
}

describe.each([
  ['the stack', 'standalone/src/stack/main.ts', 'vault'],
  ['a process', 'processes/src/projectors.ts', 'projectors'],
])('%s whose account of EventStoreDB is not enough', (_what, script, name) => {
  it.each([
    ['writer:wrong', 'does not know this user name and password'],
    ['writer:right', 'does not let this account read $all'],
  ])('does not start, and says in one line why %s is not', async (account, reason) => {
    expect(await complaintOf(script, account)).toBe(`${name}: EVENTSTOREDB_URL: the event store ${reason}\n`);
  });
});
