import { errorFields } from '@token-vault/observability';
import { VaultClient } from '@token-vault/postgres';
import type { ProcessContext } from './data.ts';

/** Predefined roles of Postgres whose members read files or run programs on its host. */
const rolesOfTheHost = ['pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program'];

const statement = `
select 'superuser' as name, rolsuper as "isHeld" from pg_roles where rolname = session_user
union all
select name, pg_has_role(session_user, name, 'member') from unnest($1::text[]) name`;

/**
 * Tells the log and Prometheus by which rights SQL of the vault would reach the host of Postgres: who has the database's password, or finds
 * a way to send SQL, would read files there. The embedded Postgres gives none of them.
 */
export async function reportDatabaseRights(
  context: Pick<ProcessContext, 'settings' | 'logger' | 'metrics'>,
): Promise<void> {
  const { settings, logger, metrics } = context;
  let rights: readonly { readonly name: string; readonly isHeld: boolean }[] = [];
  metrics.gauge(
    'vault_database_right',
    'Whether the role of DATABASE_URL has a right that reaches the host of Postgres: 1 or 0.',
    'right',
    () => Object.fromEntries(rights.map(({ name, isHeld }) => [name, isHeld ? 1 : 0])),
  );
  const client = new VaultClient({
    connectionString: settings.databaseUrl,
    connectionTimeoutMillis: 5_000,
    application_name: 'vault rights',
  });
  client.on('error', () => {});
  try {
    await client.connect();
    rights = (await client.query<(typeof rights)[number]>(statement, [rolesOfTheHost])).rows;
  } catch (error) {
    logger.warn(errorFields(error), 'the rights of the role of DATABASE_URL are not known');
  } finally {
    await client.end().catch(() => undefined);
  }
  const held = rights.filter(({ isHeld }) => isHeld).map(({ name }) => name);
  // A superuser counts as a member of every role.
  const reason = held.includes('superuser') ? 'superuser' : held.join(', ');
  if (reason !== '')
    logger.warn(
      { reason },
      'the role of DATABASE_URL may read files or run programs on the host of Postgres: give the vault a role without this right',
    );
}
