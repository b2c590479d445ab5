import { VaultClient } from '@token-vault/postgres';
import { StandaloneError } from './config.ts';

/**
 * Connects once to the operator's own Postgres, so that a wrong address, account or database name is reported in one
 * line.
 * @throws StandaloneError with the reason that the system or the server gives, without the password.
 */
export async function requireReachable(databaseUrl: string): Promise<void> {
  const client = new VaultClient({ connectionString: databaseUrl, connectionTimeoutMillis: 10_000 });
  client.on('error', () => {});
  try {
    await client.connect();
  } catch (cause) {
    const place = `${client.host}:${client.port}`;
    throw new StandaloneError(`DATABASE_URL: cannot connect to Postgres at ${place}: ${reasonOf(cause)}`, {
      cause,
    });
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** A host with several addresses gives an AggregateError, whose own message is empty. */
function reasonOf(error: unknown): string {
  if (error instanceof AggregateError) return [...new Set(error.errors.map(reasonOf))].join(', ');
  return (error instanceof Error ? error.message : String(error)).replaceAll(/\s+/g, ' ');
}
