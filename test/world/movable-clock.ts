import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll } from 'vitest';

interface MovableClock {
  /** The environment of the vault whose clock it is. */
  readonly env: Readonly<Record<string, string>>;
  /** The time of the vault, milliseconds. */
  now(): number;
  /** Never moves backwards. The vault has the time some milliseconds later. */
  moveTo(ms: number): void;
}

/** A clock for the vault of a test file, so that an hour need not be waited for. */
export function useMovableClock(): MovableClock {
  const directory = mkdtempSync(path.join(tmpdir(), 'vault-clock-'));
  // The vault may run by another account.
  chmodSync(directory, 0o755);
  const file = path.join(directory, 'ahead-ms');
  let aheadMs = 0;
  const write = () => {
    writeFileSync(file, String(aheadMs));
  };
  write();
  afterAll(() => {
    rmSync(directory, { recursive: true });
  });
  const loaded = path.join(import.meta.dirname, 'clock-of-vault.ts');
  return {
    env: { NODE_OPTIONS: `--import=${loaded}`, TEST_CLOCK_FILE: file },
    now: () => Date.now() + aheadMs,
    moveTo(ms) {
      aheadMs = Math.max(aheadMs, ms - Date.now());
      write();
    },
  };
}
