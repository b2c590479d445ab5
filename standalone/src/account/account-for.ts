import { stat } from 'node:fs/promises';
import { firstClosedDirectory, type Account } from '@token-vault/embedded-postgres';
import { StandaloneError } from '../config.ts';
import type { DataDirectory } from '../data-directory.ts';

type Places = Pick<DataDirectory, 'postgres' | 'root' | 'rootKeyFile'>;

/** As docs/how-to/run-with-systemd.md makes it. Nothing but a vault has an account of this name (ADR 34). */
export const ownName = 'token-vault';

/**
 * The account that a vault started as root takes: of the setting; else of the data directory and its root key, when both have the same;
 * else the one that the host has for vaults, when it may enter the program and the data directory. Undefined: it stays root.
 * @throws StandaloneError when the host has no account of the setting
 */
export async function accountFor(
  setting: string | undefined,
  places: Places,
  accounts: readonly Account[],
): Promise<Account | undefined> {
  if (setting !== undefined) return named(setting, accounts);
  return (await ownerOf(places, accounts)) ?? (await forVaults(places, accounts));
}

async function forVaults({ root }: Places, accounts: readonly Account[]): Promise<Account | undefined> {
  const account = accounts.find(({ name }) => name === ownName);
  if (account === undefined) return undefined;
  const closed = await Promise.all(
    [import.meta.dirname, root].map((place) => firstClosedDirectory(place, account)),
  );
  // The data directory itself changes hands.
  return closed.every((place) => place === undefined || place === root) ? account : undefined;
}

/** Undefined when the owner is root, or when the files have different owners. */
async function ownerOf(
  { root, rootKeyFile, postgres }: Places,
  accounts: readonly Account[],
): Promise<Account | undefined> {
  const [ofAll, ofKey, ofPostgres] = await Promise.all(
    [root, rootKeyFile, postgres].map((place) => stat(place).catch(() => undefined)),
  );
  // The root key may be stored elsewhere, and the owner of the directory can remove it. That must not make root work
  // in that directory.
  const ofWithin = ofKey ?? ofPostgres;
  if (ofAll === undefined || ofAll.uid === 0 || ofAll.uid !== ofWithin?.uid) return undefined;
  const { uid, gid } = ofAll;
  return accounts.find((account) => account.uid === uid) ?? { name: `user ${uid}`, uid, gid };
}

/**
 * By name or user id. An account that the host does not know cannot make the files of Postgres: initdb needs its
 * name.
 */
function named(setting: string, accounts: readonly Account[]): Account {
  const account = accounts.find(({ name, uid }) => name === setting || `${uid}` === setting);
  if (account === undefined) throw new StandaloneError('VAULT_ACCOUNT: this host has no such account');
  return account;
}
