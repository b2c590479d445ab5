import { readdirSync, readFileSync, statSync } from 'node:fs';

/** User ids, both included. */
export interface AccountRange {
  readonly first: number;
  readonly last: number;
}

/**
 * Below the ids that systemd gives dynamic users, above those of people, and within the 65,536 ids of a container.
 */
export const defaultAccountRange: AccountRange = { first: 60_800, last: 60_927 };

/**
 * A different account for each child, so that code that has left its isolate and Node has no rights on other
 * children. Only as root. Otherwise all children have one account, and each has its own user namespace.
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
  // The place where the next search begins, so that a returned account is not used again while others are free.
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

/** The accounts of people and services, and of all running processes: the children of another pool, Postgres. */
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
