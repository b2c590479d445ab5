import {
  environmentRootKey,
  fileRootKey,
  isKeyRingInitialised,
  type RootKeyProvider,
} from '@token-vault/crypto';
import { access } from 'node:fs/promises';
import type { Pool } from 'pg';

/** Where root keys are. The next one is there only while the root key is being rotated. */
export interface RootKeySources {
  /** VAULT_ROOT_KEY; undefined: the file. */
  readonly rootKey: string | undefined;
  /** VAULT_ROOT_KEY_NEXT; undefined: the file beside that of the root key. */
  readonly nextRootKey?: string | undefined;
  readonly rootKeyFile: string;
}

/** What `createKeyRing` is given. */
export interface HeldRootKeys {
  readonly rootKey: RootKeyProvider;
  readonly otherRootKeys: readonly RootKeyProvider[];
  readonly findRootKey: (rootKeyId: string) => Promise<RootKeyProvider | undefined>;
}

/** `vault keys rotate-root` writes it before the first key is wrapped by it, and renames it when the last one is. */
export const nextRootKeyFile = (rootKeyFile: string): string => `${rootKeyFile}.next`;

/** @throws RootKeyUnusableError; undefined when there is no next root key. */
export async function readNextRootKey(sources: RootKeySources): Promise<RootKeyProvider | undefined> {
  if (sources.nextRootKey !== undefined)
    return environmentRootKey(sources.nextRootKey, 'VAULT_ROOT_KEY_NEXT');
  return readIfThere(nextRootKeyFile(sources.rootKeyFile));
}

async function readIfThere(file: string): Promise<RootKeyProvider | undefined> {
  try {
    return await fileRootKey(file);
  } catch (error) {
    const isThere = await access(file).then(
      () => true,
      () => false,
    );
    if (isThere) throw error;
    return undefined;
  }
}

/**
 * The root keys a vault starts with, and the way to one that comes into use while it runs. A missing file is made only for a
 * vault that has never had a key: otherwise it would hide that the key is lost.
 * @throws RootKeyUnusableError
 */
export async function openRootKeys(sources: RootKeySources, pool: Pool): Promise<HeldRootKeys> {
  const next = await readNextRootKey(sources);
  const rootKey =
    sources.rootKey === undefined
      ? await fileRootKey(sources.rootKeyFile, { initialise: !(await isKeyRingInitialised(pool)) })
      : environmentRootKey(sources.rootKey, 'VAULT_ROOT_KEY');
  return {
    rootKey,
    otherRootKeys: next ? [next] : [],
    async findRootKey(rootKeyId) {
      // A key from the environment was chosen on purpose: a file beside it must not make up for a wrong one.
      if (sources.rootKey !== undefined) return undefined;
      // The next file first: if it has been renamed already, its key is in the other one, and stays there.
      for (const file of [nextRootKeyFile(sources.rootKeyFile), sources.rootKeyFile]) {
        const found = await readIfThere(file);
        if (found?.id === rootKeyId) return found;
      }
      return undefined;
    },
  };
}
