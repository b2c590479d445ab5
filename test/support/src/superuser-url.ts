import { readFile } from 'node:fs/promises';
import path from 'node:path';

/** The lines of the lock file of the embedded Postgres in `postgres`. */
export async function postmasterFile(postgres: string): Promise<string[]> {
  return (await readFile(path.join(postgres, 'cluster/data/postmaster.pid'), 'utf8')).split('\n');
}

/**
 * The URL of the superuser of the running embedded Postgres in `postgres`, as its supervisor connects. It contains the password. For what the
 * role of a vault may not do: disable triggers, read catalogs with values, make databases.
 */
export async function superuserUrl(postgres: string): Promise<string> {
  const password = (await readFile(path.join(postgres, 'cluster/password'), 'utf8')).trim();
  const host = (await postmasterFile(postgres))[4] ?? '';
  const query = new URLSearchParams({ host, user: 'postgres', password });
  return `postgres:///postgres?${query.toString()}`;
}
