import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { StartError } from './start-error.ts';

/** The unprivileged account that Postgres runs as when the vault runs as root. */
export interface Account {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

/** The user of the supervisor and the accounts of the machine; given by tests, otherwise read from the system. */
export interface Identity {
  readonly uid: number;
  readonly accounts: readonly Account[];
}

const preferredNames = ['postgres', 'nobody'];

export async function currentIdentity(): Promise<Identity> {
  const uid = process.getuid?.() ?? -1;
  return { uid, accounts: uid === 0 ? await readAccounts() : [] };
}

async function readAccounts(): Promise<Account[]> {
  const lines = (await readFile('/etc/passwd', 'utf8').catch(() => '')).split('\n');
  return lines.flatMap((line) => {
    const [name, , uid, gid] = line.split(':');
    return name && uid && gid ? [{ name, uid: Number(uid), gid: Number(gid) }] : [];
  });
}

/**
 * Postgres refuses to run as root. For root: the account that already owns the cluster (a cluster never changes its owner), else
 * `postgres`, else `nobody`. For other users: undefined, because no privilege has to be dropped. Accounts are never created.
 * @throws StartError when root has no usable account.
 */
export async function unprivilegedAccount(identity: Identity, cluster: string): Promise<Account | undefined> {
  if (identity.uid !== 0) return undefined;
  const owner = await stat(cluster).catch(() => undefined);
  if (owner && owner.uid !== 0) {
    const known = identity.accounts.find((account) => account.uid === owner.uid);
    return known ?? { name: `uid ${owner.uid}`, uid: owner.uid, gid: owner.gid };
  }
  for (const name of preferredNames) {
    const account = identity.accounts.find((candidate) => candidate.name === name && candidate.uid !== 0);
    if (account) return account;
  }
  throw new StartError(
    'running as root without a usable account: Postgres refuses to run as root, and neither "postgres" nor "nobody" exists; run the vault as an ordinary user',
  );
}

/** User ids that own files of a vault that was started as root: root, and the accounts of `unprivilegedAccount`. */
export function formerAccounts(accounts: readonly Account[]): ReadonlySet<number> {
  return new Set([0, ...accounts.filter(({ name }) => preferredNames.includes(name)).map(({ uid }) => uid)]);
}

/** The first directory on the path to `target` (itself included) that the account may not enter; undefined when all are open. */
export async function firstClosedDirectory(target: string, account: Account): Promise<string | undefined> {
  const steps: string[] = [];
  for (let step = path.resolve(target); ; step = path.dirname(step)) {
    steps.unshift(step);
    if (step === path.dirname(step)) break;
  }
  for (const step of steps) {
    const info = await stat(step).catch(() => undefined);
    if (!info) return undefined;
    const bit = info.uid === account.uid ? 0o100 : info.gid === account.gid ? 0o010 : 0o001;
    if (info.isDirectory() && (info.mode & bit) === 0) return step;
  }
  return undefined;
}
