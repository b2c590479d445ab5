import { readdirSync, readFileSync, statSync } from 'node:fs';

/** User ids, both included. */
export interface AccountRange {
  readonly first: number;
  readonly last: number;
}

/** Below what systemd gives its dynamic users, above what it gives people, and within what a container of 65,536 ids has. */
export const defaultAccountRange: AccountRange = { first: 60_800, last: 60_927 };

/**
 * One account for each child: code that has left its isolate, and even Node, is to the kernel a stranger among its neighbours. As
 * root only; others have one account, and a user namespace for each child.
 */
export interface ChildAccounts {
  /** Undefined when none is free now. */
  take(): number | undefined;
  release(account: number): void;
}

export function createChildAccounts(
  range: AccountRange,
  isInUse: () => ReadonlySet<number> = accountsInUse,
): ChildAccounts {
  const taken = new Set<number>();
  const size = range.last - range.first + 1;
  // Where the next look begins: an account rests as long as others are free.
  let next = 0;
  return {
    take() {
      const foreign = isInUse();
      for (let step = 0; step < size; step++) {
        const account = range.first + ((next + step) % size);
        if (taken.has(account) || foreign.has(account)) continue;
        next = (next + step + 1) % size;
        taken.add(account);
        return account;
      }
      return undefined;
    },
    release: (account) => void taken.delete(account),
  };
}

/** Of the machine's people and services, and of whatever runs: the children of another pool, Postgres. */
function accountsInUse(): ReadonlySet<number> {
  return new Set([...namedAccounts(), ...runningAccounts()]);
}

function namedAccounts(): number[] {
  try {
    const lines = readFileSync('/etc/passwd', 'utf8').split('\n');
    return lines.map((line) => Number(line.split(':')[2]));
  } catch {
    return [];
  }
}

function runningAccounts(): number[] {
  try {
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .flatMap((pid) => statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid ?? []);
  } catch {
    return [];
  }
}
