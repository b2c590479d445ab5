import path from 'node:path';
import { defaultDataDirectory } from '@token-vault/embedded-postgres';
import { takeAccount } from '../account/service-account.ts';
import { placesIn } from '../data-directory.ts';
import type { Terminal } from './terminal.ts';

/**
 * Leaves root, so that no file of the data directory belongs to root again. Files written elsewhere belong to the
 * account too.
 */
export async function leaveRoot({ environment }: Terminal): Promise<void> {
  if (process.getuid?.() !== 0) return;
  const { VAULT_ACCOUNT: account, VAULT_DATA_DIR: configured } = environment;
  const root = path.resolve(configured || (await defaultDataDirectory(path.resolve('.vault'))));
  await takeAccount({ account: account || undefined }, placesIn(root));
}
