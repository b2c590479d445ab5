import { startEmbeddedPostgres } from '@token-vault/embedded-postgres';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { pinnedNode } from './programs.ts';

const run = promisify(execFile);
const root = path.resolve(import.meta.dirname, '../../..');

/** The environment variable that names the directory of the test run. The global setup sets it. */
export const runDirectoryVariable = 'TOKEN_VAULT_TEST_RUN';

/** In a process of its own: a worker of the tests would translate all modules of the vault for it. */
async function makeTables(url: string): Promise<void> {
  const { NODE_COMPILE_CACHE = '' } = process.env;
  const env = { NODE_COMPILE_CACHE, DATABASE_URL: url };
  await run(pinnedNode, ['standalone/test/migrate.ts'], { cwd: root, env });
}

/** Several workers may make the template at once; the first rename wins. */
async function makeTemplate(template: string): Promise<void> {
  const own = `${template}-${process.pid}`;
  const postgres = await startEmbeddedPostgres({ dataDir: own, settings: { fsync: false } });
  await makeTables(postgres.url).finally(() => postgres.stop());
  await rename(own, template).catch(() => rm(own, { recursive: true, force: true }));
}

/**
 * Puts a new database cluster with empty tables into the data directory of a vault that has none. The copy of a template takes less than a
 * tenth of the processor time of initdb and of the migrations. Tests of the first start itself call `spawnStandalone`, which does not use the
 * template; `npm start`, the README and the images do not either.
 */
export async function copyCluster(dataDir: string): Promise<void> {
  const directory = process.env[runDirectoryVariable];
  const postgres = path.join(dataDir, 'postgres');
  if (directory === undefined || existsSync(postgres)) return;
  const template = path.join(directory, 'cluster-template');
  if (!existsSync(template)) await makeTemplate(template);
  await mkdir(dataDir, { recursive: true });
  await run('cp', ['-Rp', template, postgres]);
}
