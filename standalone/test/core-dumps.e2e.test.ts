import { createDataDirectory, removeDataDirectory, startStandaloneProcess } from '@token-vault/test-support';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

let dataDir: string;

beforeAll(async () => {
  dataDir = await createDataDirectory();
});
afterAll(() => removeDataDirectory(dataDir));

const filterOf = (pid: number): string => readFileSync(`/proc/${pid}/coredump_filter`, 'utf8').trim();

describe('core dumps', () => {
  it.skipIf(process.platform !== 'linux')('of the vault and of its Postgres hold no memory', async () => {
    const vault = await startStandaloneProcess({ dataDir });
    try {
      const postmaster = await vault.postmasterPid();
      expect([vault.pid, postmaster].map(filterOf)).toEqual(['00000000', '00000000']);
    } finally {
      await vault.stop();
    }
  });
});
