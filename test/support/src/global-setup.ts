import { chmod, mkdtemp, readdir, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '@token-vault/embedded-postgres';
import { runDirectoryVariable } from './cluster-template.ts';
import { removeTestDatabases } from './database.ts';
import { starterVariable } from './starter.ts';
import { superuserUrl } from './superuser-url.ts';
import { testDirectory } from './test-directory.ts';

const prefix = 'token-vault-test-';

/**
 * One temporary Postgres for a test run, started when the first test asks for a database. A run of unit tests has
 * only an idle socket. Workers find the socket by an environment variable that they inherit.
 */
export default async function setup(): Promise<() => Promise<void>> {
  await removeAbandoned();
  const directory = await mkdtemp(path.join(testDirectory, `${prefix}${process.pid}-`));
  // As root, Postgres runs under another account, which must be able to pass through.
  await chmod(directory, 0o711);
  const socket = path.join(directory, 'starter.sock');
  let starting: Promise<Pick<EmbeddedPostgres, 'url' | 'stop'>> | undefined;

  const starter = createServer((connection) => {
    connection.on('error', () => {});
    starting ??= runningPostgres() ?? startThrowAwayPostgres(path.join(directory, 'postgres'));
    starting.then(
      ({ url }) => connection.end(JSON.stringify({ url })),
      (error: unknown) => connection.end(JSON.stringify({ error: String(error) })),
    );
  });
  await new Promise<void>((resolve, reject) => {
    starter.once('error', reject).listen(socket, resolve);
  });
  starter.unref();
  process.env[starterVariable] = socket;
  process.env[runDirectoryVariable] = directory;

  return async () => {
    starter.close();
    const postgres = await starting?.catch(() => undefined);
    await postgres?.stop();
    await rm(directory, { recursive: true, force: true });
  };
}

/** Removes the temporary directories that killed runs left. Their Postgres ended with them. */
async function removeAbandoned(): Promise<void> {
  for (const place of new Set([tmpdir(), testDirectory])) {
    for (const name of await readdir(place)) {
      const pid = name.startsWith(prefix) ? Number.parseInt(name.slice(prefix.length), 10) : NaN;
      if (pid > 0 && !isAlive(pid)) {
        await rm(path.join(place, name), { recursive: true, force: true }).catch(() => undefined);
      }
    }
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

/** The server of `npm run test:real`. Databases of an earlier run are removed: their templates may be those of another release. */
function runningPostgres(): Promise<Pick<EmbeddedPostgres, 'url' | 'stop'>> | undefined {
  const url = process.env['VAULT_TEST_POSTGRES_URL'];
  if (!url) return undefined;
  return removeTestDatabases(url).then(() => ({ url, stop: () => removeTestDatabases(url) }));
}

async function startThrowAwayPostgres(dataDir: string): Promise<Pick<EmbeddedPostgres, 'url' | 'stop'>> {
  const postgres = await startEmbeddedPostgres({
    dataDir,
    settings: {
      fsync: false,
      synchronous_commit: false,
      full_page_writes: false,
      max_connections: 300,
      max_wal_size: '2GB',
      checkpoint_timeout: '1h',
    },
  });
  return { url: await superuserUrl(dataDir), stop: () => postgres.stop() };
}
