import { createTestDatabase, type TestDatabase } from '@token-vault/test-support';
import { createEventStoreSchema } from '@token-vault/event-store/postgres';
import pg from 'pg';

/** A database of its own with an empty log. */
export function createTestLog(): Promise<TestDatabase> {
  const fill = (url: string) => createEventStoreSchema({ connectionString: url });
  return createTestDatabase({ template: { name: 'event-store', fill } });
}

/** Ends the other connections to this database, as a restart of the server would. */
export async function cutConnections(url: string, where = 'true'): Promise<void> {
  await withClient(url, (client) =>
    client.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid() and ${where}`,
    ),
  );
}

export async function withClient<Result>(
  url: string,
  work: (client: pg.Client) => Promise<Result>,
): Promise<Result> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end().catch(() => undefined);
  }
}
