import { spawnSync } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { getPriority } from 'node:os';
import { StandaloneError, type StandaloneConfig } from '../config.ts';
import type { DataDirectory } from '../data-directory.ts';
import {
  currentIdentity,
  firstClosedDirectory,
  formerAccounts,
  type Account,
} from '@token-vault/embedded-postgres';
import { accountFor } from './account-for.ts';
import { handOver } from './hand-over.ts';

/**
 * 65534 is `nobody`, which other programs use too. 65533 is the account of sandbox processes without an account of
 * their own.
 */
const notForServices = [0, 65_533, 65_534];

/**
 * As root, switches for good to the account that `accountFor` gives, and gives it the data directory. Call it after
 * privileged ports are open. A process that is not root changes nothing.
 * @throws StandaloneError when there is no such account, or when it may not enter the data directory or the program
 */
export async function takeAccount(
  { account: setting }: Pick<StandaloneConfig, 'account'>,
  directory: Pick<DataDirectory, 'postgres' | 'root' | 'rootKeyFile'>,
): Promise<void> {
  if (process.getuid?.() !== 0) return;
  const { accounts } = await currentIdentity();
  const account = await accountFor(setting, directory, accounts);
  if (account === undefined) return;
  requireUnprivileged(account);
  await requireOpen(import.meta.dirname, account);
  if ((await stat(directory.root).catch(() => undefined)) !== undefined) {
    await requireOpen(directory.root, account, true);
    await handOver(directory, account, formerAccounts(accounts));
  }
  become(account);
}

/** Checked for all ways in which the account is found. */
function requireUnprivileged({ name, uid, gid }: Account): void {
  if (notForServices.includes(uid))
    throw new StandaloneError('VAULT_ACCOUNT must not be root or nobody: make an account for the vault');
  if (gid === 0)
    throw new StandaloneError(`VAULT_ACCOUNT: the group of ${name} is that of root: give it one of its own`);
}

async function requireOpen(place: string, account: Account, isOwn = false): Promise<void> {
  const closed = await firstClosedDirectory(place, account);
  // Files that are made later belong to the account anyway.
  if (closed === undefined || (isOwn && closed === place)) return;
  throw new StandaloneError(`VAULT_ACCOUNT: ${account.name} may not enter ${closed}`);
}

/**
 * From now on the process has no privileges and cannot regain them. The kernel does not let another process of the
 * account trace it.
 */
function become({ uid, gid }: Account): void {
  letChildrenBeRaised();
  process.setgroups?.([]);
  process.setgid?.(gid);
  process.setuid?.(uid);
  if (process.getuid?.() !== uid || process.geteuid?.() !== uid || process.getgid?.() !== gid)
    throw new StandaloneError('VAULT_ACCOUNT: the account could not be taken');
}

/**
 * Lets children raise their priority as root could, for runs with a waiting caller (ADR 12): to 3 below the service.
 * RLIMIT_NICE counts down from 20.
 */
function letChildrenBeRaised(): void {
  spawnSync('prlimit', [`--pid=${process.pid}`, `--nice=${17 - getPriority()}`], { stdio: 'ignore' });
}
