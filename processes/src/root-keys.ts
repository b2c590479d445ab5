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

/** Where root keys are. The next one is there only while the root key is being rotated. */
export interface RootKeySources extends RootKeySettings {
  readonly rootKeyFile: string;
  /** Never make one, not even for a vault that has no keys yet: other replicas would not have it. */
  readonly isRootKeyGiven?: boolean;
}

/** What `createKeyRing` is given. */
export interface HeldRootKeys {
  readonly rootKey: RootKeyProvider;
  readonly otherRootKeys: readonly RootKeyProvider[];
  readonly findRootKey: (rootKeyId: string) => Promise<RootKeyProvider | undefined>;
}

/** `vault keys rotate-root` writes it before the first key is wrapped by it, and renames it when the last one is. */
export const nextRootKeyFile = (rootKeyFile: string): string => `${rootKeyFile}.next`;

/** @throws RootKeyUnusableError, RootKeyUnavailableError; undefined when there is no next root key. */
export async function readNextRootKey(sources: RootKeySources): Promise<RootKeyProvider | undefined> {
  const inTransit = nextTransitOptions(sources);
  if (inTransit) return transitKey(inTransit).newest();
  if (sources.nextRootKey !== undefined)
    return environmentRootKey(sources.nextRootKey, 'VAULT_ROOT_KEY_NEXT');
  return readRootKeyFile(nextRootKeyFile(sources.rootKeyFile));
}

/** Undefined when there is no such file. @throws RootKeyUnusableError */
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

/** Reads the current root key and makes none, to say early that it is missing. @throws as `openRootKeys` */
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
 * The root keys a vault starts with, and the way to one that comes into use while it runs. A missing file is made only for a
 * vault that has never had a key: otherwise it would hide that the key is lost.
 * @throws RootKeyUnusableError, RootKeyUnavailableError
 */
export async function openRootKeys(sources: RootKeySources, pool: Pool): Promise<HeldRootKeys> {
  const next = await readNextRootKey(sources);
  const mayMake = async () => sources.isRootKeyGiven !== true && !(await isKeyRingInitialised(pool));
  const rootKey = await readRootKey(sources, mayMake);
  return { rootKey, otherRootKeys: next ? [next] : [], findRootKey: (id) => findRootKey(sources, id) };
}

async function findRootKey(sources: RootKeySources, rootKeyId: string): Promise<RootKeyProvider | undefined> {
  // Another version of a key that is in transit: an older one at the start, a newer one when another process rotates.
  for (const options of [
    isTransitCurrent(sources) ? sources.transit : undefined,
    nextTransitOptions(sources),
  ]) {
    const found = options && (await transitKey(options).find(rootKeyId));
    if (found) return found;
  }
  // A key from elsewhere was chosen on purpose: a file beside it must not make up for a wrong one.
  if (sources.rootKey !== undefined || isTransitCurrent(sources)) return undefined;
  // The next file first: if it has been renamed already, its key is in the other one, and stays there.
  for (const file of [nextRootKeyFile(sources.rootKeyFile), sources.rootKeyFile]) {
    const found = await readRootKeyFile(file);
    if (found?.id === rootKeyId) return found;
  }
  return undefined;
}
