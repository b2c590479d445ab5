import { startEmbeddedPostgres } from '@token-vault/embedded-postgres';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

/** The environment variable that names the directory of the test run. The global setup sets it. */
export const runDirectoryVariable = 'TOKEN_VAULT_TEST_RUN';

/** Several workers may make the template at once; the first rename wins. */
async function makeTemplate(template: string): Promise<void> {
  const own = `${template}-${process.pid}`;
  const postgres = await startEmbeddedPostgres({ dataDir: own, settings: { fsync: false } });
  await postgres.stop();
  await rename(own, template).catch(() => rm(own, { recursive: true, force: true }));
}

/**
 * Puts a new database cluster into the data directory of a vault that has none. The copy of a template takes less than a tenth of
 * the processor time of initdb. Tests of the first start itself call `spawnStandalone`, which does not use the template.
 */
export async function copyCluster(dataDir: string): Promise<void> {
  const run = process.env[runDirectoryVariable];
  const postgres = path.join(dataDir, 'postgres');
  if (run === undefined || existsSync(postgres)) return;
  const template = path.join(run, 'cluster-template');
  if (!existsSync(template)) await makeTemplate(template);
  await mkdir(dataDir, { recursive: true });
  await promisify(execFile)('cp', ['-Rp', template, postgres]);
}
