import { createTestPool } from '@token-vault/test-support';
import pg from 'pg';
import type { DistributedVault } from './distributed-vault.ts';

type Surroundings = Readonly<Record<string, () => Promise<void>>>;

/**
 * What a test can kill besides the members of the stack, each with its return. The broker only when the test has
 * started it.
 */
export function surroundingsOf({
  kafka,
  eventStore,
  databaseUrl,
}: Pick<DistributedVault, 'kafka' | 'eventStore' | 'databaseUrl'>): Surroundings {
  const { faults } = kafka;
  return {
    Postgres: () => crashPostgres(databaseUrl),
    'the event store': () => eventStore.tell('down').then(() => eventStore.tell('up')),
    ...(faults && { 'the broker': () => faults.kill().then(() => faults.start()) }),
  };
}

/** `kill -9` of a session: Postgres ends all others and recovers. Does nothing while it recovers from the last one. */
async function crashPostgres(url: string): Promise<void> {
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

/** As if an hour had passed since every key was made: the next pass of the sweep looks at all of them (ADR 2). */
export async function ageKeys({ databaseUrl }: Pick<DistributedVault, 'databaseUrl'>): Promise<void> {
  const pool = createTestPool(databaseUrl);
  const [first, last] = ['0', 'f'].map((digit) => digit.repeat(32));
  await pool
    .query('update housekeeping.key_sweep set after = $1, until = $2', [first, last])
    .finally(() => pool.end());
}
