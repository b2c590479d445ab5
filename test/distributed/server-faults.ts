import pg from 'pg';
import type { DistributedVault } from './distributed-vault.ts';

/**
 * For each server that the stack uses, the function that kills it and starts it again, or cuts it off for a moment. The broker only when
 * the test has started it.
 */
export function serverFaults({
  kafka,
  eventStore,
  databaseUrl,
}: Pick<DistributedVault, 'kafka' | 'eventStore' | 'databaseUrl'>): Readonly<
  Record<string, () => Promise<void>>
> {
  const faults = 'faults' in kafka ? kafka.faults : undefined;
  return {
    Postgres: () => crashPostgres(databaseUrl),
    'the event store': () => eventStore.tell('down').then(() => eventStore.tell('up')),
    ...(faults && { 'the broker': () => faults.kill().then(() => faults.start()) }),
  };
}

/** `kill -9` of a session: Postgres ends all others and recovers. Does nothing while it recovers from the last one. */
export async function crashPostgres(url: string): Promise<void> {
  const client = new pg.Client(url);
  client.on('error', () => {});
  try {
    await client.connect();
    const { rows } = await client.query<{ pid: number }>(
      `select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()
       order by random() limit 1`,
    );
    for (const { pid } of rows) process.kill(pid, 'SIGKILL');
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === '57P03')) throw error;
  } finally {
    await client.end().catch(() => undefined);
  }
}
