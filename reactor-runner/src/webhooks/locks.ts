import type { Logger } from '@token-vault/service-kit';
import { errorFields } from '@token-vault/service-kit';
import pg from 'pg';

/** Namespace of our advisory locks. */
const lockClass = 0x7765_6268;

/**
 * Keeps replicas from making the same delivery at once. Locks of one database session: when the session is lost so are they,
 * and a delivery may then be made twice, which receivers must expect anyway.
 */
export function createLocks(connectionString: string, logger: Logger) {
  let connecting: Promise<pg.Client> | undefined;

  async function connect(): Promise<pg.Client> {
    const client = new pg.Client({
      connectionString,
      application_name: 'vault webhooks',
      connectionTimeoutMillis: 5_000,
    });
    const lose = () => (connecting = undefined);
    client.on('error', lose).on('end', lose);
    await client.connect();
    return client;
  }

  async function session(): Promise<pg.Client> {
    connecting ??= connect();
    try {
      return await connecting;
    } catch (error) {
      connecting = undefined;
      throw error;
    }
  }

  return {
    /** Does nothing when another replica holds the lock. A process must not ask twice for the same. */
    async hold(name: string, work: () => Promise<void>): Promise<void> {
      const client = await session();
      const { rows } = await client.query<{ locked: boolean }>(
        'select pg_try_advisory_lock($1, hashtext($2)) as locked',
        [lockClass, name],
      );
      if (rows[0]?.locked !== true) return;
      try {
        await work();
      } finally {
        await client
          .query('select pg_advisory_unlock($1, hashtext($2))', [lockClass, name])
          .catch((error: unknown) => logger.warn(errorFields(error), 'a lock was lost'));
      }
    },
    async close(): Promise<void> {
      const client = await connecting?.catch(() => undefined);
      await client?.end().catch(() => undefined);
    },
  };
}
