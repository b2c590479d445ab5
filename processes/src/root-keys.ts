import {
  environmentRootKey,
  fileRootKey,
  isKeyRingInitialised,
  transitKey,
  type RootKeyProvider,
} from '@token-vault/crypto';
import { access } from 'node:fs/promises';
import type { Pool } from 'pg';
import { isTransitCurrent, nextTransitOptions, type RootKeySettings } from './root-key-settings.ts';

/** The places of root keys. The next root key exists only during a rotation. */
export interface RootKeySources extends RootKeySettings {
  readonly rootKeyFile: string;
  /** Never create a root key, not even for a vault without keys: other replicas would not have it. */
  readonly isRootKeyGiven?: boolean;
}

/** The root keys in the form of `createKeyRing`. */
export interface HeldRootKeys {
  readonly rootKey: RootKeyProvider;
  readonly otherRootKeys: readonly RootKeyProvider[];
  readonly findRootKey: (rootKeyId: string) => Promise<RootKeyProvider | undefined>;
}

/**
 * `vault keys rotate-root` writes this file before the first key is wrapped by it, and renames it after the last one.
 */
export const nextRootKeyFile = (rootKeyFile: string): string => `${rootKeyFile}.next`;

/** @throws RootKeyUnusableError, RootKeyUnavailableError. Undefined when there is no next root key. */
export async function readNextRootKey(sources: RootKeySources): Promise<RootKeyProvider | undefined> {
  const inTransit = nextTransitOptions(sources);
  if (inTransit) return transitKey(inTransit).newest();
  if (sources.nextRootKey !== undefined)
    return environmentRootKey(sources.nextRootKey, 'VAULT_ROOT_KEY_NEXT');
  return readRootKeyFile(nextRootKeyFile(sources.rootKeyFile));
}

/** Undefined when the file does not exist. @throws RootKeyUnusableError */
export async function readRootKeyFile(file: string): Promise<RootKeyProvider | undefined> {
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

/** Reads the current root key without creating one, to report early that it is missing. @throws as `openRootKeys` */
export async function requireRootKey(sources: RootKeySources): Promise<void> {
  await readRootKey(sources, () => Promise.resolve(false));
}

async function readRootKey(
  sources: RootKeySources,
  mayMake: () => Promise<boolean>,
): Promise<RootKeyProvider> {
  if (sources.transit && isTransitCurrent(sources)) return transitKey(sources.transit).newest();
  if (sources.rootKey !== undefined) return environmentRootKey(sources.rootKey, 'VAULT_ROOT_KEY');
  return fileRootKey(sources.rootKeyFile, { initialise: await mayMake() });
}

/**
 * The root keys at the start, and a function that finds one that comes into use later. A missing file is created only
 * for a vault that never had a key: otherwise a new file would hide the loss of the key.
 * @throws RootKeyUnusableError, RootKeyUnavailableError
 */
export async function openRootKeys(sources: RootKeySources, pool: Pool): Promise<HeldRootKeys> {
  const next = await readNextRootKey(sources);
  const mayMake = async () => sources.isRootKeyGiven !== true && !(await isKeyRingInitialised(pool));
  const rootKey = await readRootKey(sources, mayMake);
  return { rootKey, otherRootKeys: next ? [next] : [], findRootKey: (id) => findRootKey(sources, id) };
}

async function findRootKey(sources: RootKeySources, rootKeyId: string): Promise<RootKeyProvider | undefined> {
  // Another version of a transit key: an older one at the start, a newer one when another process rotates.
  for (const options of [
    isTransitCurrent(sources) ? sources.transit : undefined,
    nextTransitOptions(sources),
  ]) {
    const found = options && (await transitKey(options).find(rootKeyId));
    if (found) return found;
  }
  // When the root key is configured elsewhere, a file in the data directory must not replace a wrong setting.
  if (sources.rootKey !== undefined || isTransitCurrent(sources)) return undefined;
  // The next file is read first. If it was renamed before this read, its key is in the other file and stays there.
  for (const file of [nextRootKeyFile(sources.rootKeyFile), sources.rootKeyFile]) {
    const found = await readRootKeyFile(file);
    if (found?.id === rootKeyId) return found;
  }
  return undefined;
}
