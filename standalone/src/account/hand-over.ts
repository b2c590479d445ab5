import type { Stats } from 'node:fs';
import { chown, constants, lstat, open, readdir, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { StandaloneError } from '../config.ts';
import type { DataDirectory } from '../data-directory.ts';
import { keepPostgresStopped, type Account } from '@token-vault/embedded-postgres';

/** An entry that belongs to another account. */
interface Foreign {
  /** The name for messages. */
  readonly name: string;
  /** The path to work with. Its directory is held open, so that it cannot be exchanged. */
  readonly place: string;
  readonly info: Stats;
}

/**
 * Gives the account the files that earlier starts as root left in the data directory: root.key, credentials.json, the
 * files of Postgres. Nothing else: not the target of a symbolic link, not a file with a second name elsewhere, and
 * not a file of an owner outside `former`, which is root and the accounts that Postgres ran as.
 * @throws StandaloneError naming a file of another owner, DataDirectoryInUseError while a vault runs there
 */
export async function handOver(
  directory: Pick<DataDirectory, 'postgres' | 'root'>,
  account: Account,
  former: ReadonlySet<number>,
): Promise<void> {
  const root = await realpath(directory.root);
  const postgres = path.join(root, path.relative(directory.root, directory.postgres));
  let isAnyForeign = false;
  const refuse = ({ name, info }: Foreign): void => {
    isAnyForeign = true;
    const reason = !former.has(info.uid)
      ? `belongs to user ${info.uid}`
      : info.isFile() && info.nlink > 1
        ? 'has another name elsewhere'
        : undefined;
    if (reason !== undefined)
      throw new StandaloneError(`VAULT_ACCOUNT: ${name} ${reason}, so it is not handed to ${account.name}`);
  };
  await visit(root, account, refuse);
  if (!isAnyForeign) return;
  const hasPostgres = (await stat(postgres).catch(() => undefined)) !== undefined;
  const release = hasPostgres ? await keepPostgresStopped(postgres) : async () => {};
  try {
    await visit(root, account, (entry) => give(entry, account, refuse));
  } finally {
    await release();
  }
}

/** linux/fcntl.h: O_PATH. It opens symbolic links and devices themselves, not their targets. */
const pathOnly = 0o10000000;

/** Changes the owner of the file that was checked, by its descriptor: the name may lead to another file by now. */
async function give(entry: Foreign, account: Account, refuse: (entry: Foreign) => void): Promise<void> {
  const handle = await open(entry.place, pathOnly | constants.O_NOFOLLOW);
  try {
    refuse({ ...entry, info: await handle.stat() });
    await chown(`/proc/self/fd/${handle.fd}`, account.uid, account.gid);
  } finally {
    await handle.close();
  }
}

async function visit(
  root: string,
  account: Account,
  onForeign: (entry: Foreign) => Promise<void> | void,
): Promise<void> {
  const info = await lstat(root);
  if (!info.isDirectory()) throw new StandaloneError(`VAULT_ACCOUNT: ${root} is not a directory`);
  if (info.uid !== account.uid) await onForeign({ name: root, place: root, info });
  await visitEntries(root, root, account, onForeign);
}

/**
 * Links of these names to the programs of the package are made when the account cannot reach the package. They stay
 * unchanged.
 */
const isOfPackage = (name: string): boolean => name.startsWith('programs-');

async function visitEntries(
  place: string,
  name: string,
  account: Account,
  onForeign: (entry: Foreign) => Promise<void> | void,
): Promise<void> {
  const handle = await open(place, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    const held = `/proc/self/fd/${handle.fd}`;
    for (const child of (await readdir(held)).filter((each) => !isOfPackage(each))) {
      const entry = { name: path.join(name, child), place: path.join(held, child) };
      // The entry may be gone: a running vault makes and removes files.
      const info = await lstat(entry.place).catch(() => undefined);
      if (info === undefined) continue;
      if (info.uid !== account.uid) await onForeign({ ...entry, info });
      if (info.isDirectory()) await visitEntries(entry.place, entry.name, account, onForeign);
    }
  } finally {
    await handle.close();
  }
}
