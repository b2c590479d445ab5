import { errorFields, type Logger } from '@token-vault/observability';
import { lockKeys, tryHold, unlock, VaultClient } from '@token-vault/postgres';
import type pg from 'pg';

/**
 * Keeps replicas from making the same delivery at once. The locks belong to one database session. When the session is
 * lost, or its process is frozen, the locks are lost, and a delivery may be made twice, which receivers must expect
 * anyway.
 */
export function createLocks(connectionString: string, logger: Logger) {
  let connecting: Promise<pg.Client> | undefined;

  async function connect(): Promise<pg.Client> {
    const client = new VaultClient({
      connectionString,
      application_name: 'vault webhooks',
      // Many deliveries begin and end at once. Without it, pg warns when a third statement waits.
      pipeline: true,
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
    /** Does nothing when another replica that lives holds the lock. A process must not ask for the same lock twice. */
    async hold(name: string, work: () => Promise<void>): Promise<void> {
      const client = await session();
      if (!(await tryHold(client, lockKeys.dueWork(name)))) return;
      try {
        await work();
      } finally {
        await unlock(client, lockKeys.dueWork(name)).catch((error: unknown) =>
          logger.warn(errorFields(error), 'a lock was lost'),
        );
      }
    },
    async close(): Promise<void> {
      const client = await connecting?.catch(() => undefined);
      await client?.end().catch(() => undefined);
    },
  };
}
