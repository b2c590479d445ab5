import {
  createDataDirectory,
  processSettingsOf,
  removeDataDirectory,
  startStandaloneProcess,
} from '@token-vault/test-support';
import { expect, it } from 'vitest';

it.skipIf(process.platform !== 'linux')(
  'a vault and its Postgres leave memory out of core dumps, and come before background threads',
  async () => {
    const dataDir = await createDataDirectory();
    const vault = await startStandaloneProcess({ dataDir });
    try {
      const own = processSettingsOf(vault.pid);
      const ofPostgres = processSettingsOf(await vault.postmasterPid());
      expect([own, ofPostgres].map(({ coredumpFilter }) => coredumpFilter)).toEqual(['00000000', '00000000']);
      expect(new Set(own.backgroundPriorities)).toEqual(new Set([Math.min(19, own.priority + 10)]));
      expect(ofPostgres.priority).toBe(own.priority);
    } finally {
      await vault.stop();
      await removeDataDirectory(dataDir);
    }
  },
);
