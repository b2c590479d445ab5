import { fileRootKey, type RootKeyProvider } from '@token-vault/crypto';
import { constants, copyFile, link, open, rename } from 'node:fs/promises';
import path from 'node:path';
import { nextRootKeyFile, readRootKeyFile } from '@token-vault/processes';

/** The file of the next root key. A missing file is made with a random key. @throws RootKeyUnusableError */
export function makeNextRootKey(rootKeyFile: string): Promise<RootKeyProvider> {
  return fileRootKey(nextRootKeyFile(rootKeyFile), { initialise: true });
}

/**
 * Replaces the root key by the next one. The former file stays under another name, because backups may need it. Call
 * it only when no key is wrapped by the former root key. A crash may follow each step: the vault can start after all
 * of them.
 * @returns the place of the former key, undefined when it was not in a file; or that all this was done before.
 */
export async function promoteNextRootKey(
  rootKeyFile: string,
  next: RootKeyProvider,
): Promise<{ readonly keptAs: string | undefined } | 'done before'> {
  const former = await readRootKeyFile(rootKeyFile);
  if (former?.id === next.id) return 'done before';
  const keptAs = former && `${rootKeyFile}.retired-${former.id.replace(/^local:/, '')}`;
  if (keptAs !== undefined) await keep(rootKeyFile, keptAs);
  await rename(nextRootKeyFile(rootKeyFile), rootKeyFile);
  const directory = await open(path.dirname(rootKeyFile), 'r');
  await directory.sync().finally(() => directory.close());
  return { keptAs };
}

async function keep(file: string, as: string): Promise<void> {
  const isThere = (error: unknown) => (error as NodeJS.ErrnoException).code === 'EEXIST';
  try {
    await link(file, as);
  } catch (error) {
    if (isThere(error)) return;
    // Some file systems have no hard links. A copy keeps the mode of the original.
    await copyFile(file, as, constants.COPYFILE_EXCL).catch((failure: unknown) => {
      if (!isThere(failure)) throw failure;
    });
  }
}
