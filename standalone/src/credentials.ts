import { open, readFile, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { newId } from '@token-vault/contracts';

/** The credentials that a new user needs to begin. */
export interface Credentials {
  readonly base_url: string;
  readonly tenant_id: string;
  readonly management_key: string;
}

async function writeDurably(file: string, content: object): Promise<void> {
  const temporary = `${file}.tmp`;
  const handle = await open(temporary, 'w', 0o600);
  try {
    await handle.chmod(0o600);
    await handle.writeFile(`${JSON.stringify(content, null, 2)}\n`);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(temporary, file);
  const directory = await open(path.dirname(file), 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

async function readJson(file: string): Promise<Record<string, unknown> | undefined> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as Record<string, unknown>;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * Makes the first tenant exactly once. The tenant's id is written before anything is created, so that the next start
 * completes a first start that was killed. When the operator removes the credentials file afterwards (as
 * recommended), no second tenant is made.
 */
export async function makeFirstTenant(options: {
  readonly file: string;
  readonly baseUrl: string;
  readonly isLogEmpty: () => Promise<boolean>;
  readonly create: (tenantId: string) => Promise<{ managementKey: string }>;
}): Promise<Credentials | undefined> {
  const { file, baseUrl, isLogEmpty, create } = options;
  const pendingFile = `${file}.pending`;
  const pending = await readJson(pendingFile);
  if (!pending && !(await isLogEmpty())) return undefined;
  const tenantId = typeof pending?.tenant_id === 'string' ? pending.tenant_id : newId();
  if (!pending) await writeDurably(pendingFile, { tenant_id: tenantId });
  const { managementKey } = await create(tenantId);
  const credentials = { base_url: baseUrl, tenant_id: tenantId, management_key: managementKey };
  await writeDurably(file, credentials);
  await rm(pendingFile, { force: true });
  return credentials;
}
