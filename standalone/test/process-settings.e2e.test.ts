import {
  createDataDirectory,
  removeDataDirectory,
  startStandaloneProcess,
  type StandaloneProcess,
} from '@token-vault/test-support';
import { readdirSync, readFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

let dataDir: string;
let vault: StandaloneProcess;

beforeAll(async () => {
  dataDir = await createDataDirectory();
  vault = await startStandaloneProcess({ dataDir });
});
afterAll(async () => {
  await vault.stop();
  await removeDataDirectory(dataDir);
});

const read = (file: string): string => readFileSync(file, 'utf8').trim();

describe.skipIf(process.platform !== 'linux')('the process of a vault', () => {
  it('leaves memory out of core dumps, and so does its Postgres', async () => {
    const filters = [vault.pid, await vault.postmasterPid()].map((pid) =>
      read(`/proc/${pid}/coredump_filter`),
    );
    expect(filters).toEqual(['00000000', '00000000']);
  });

  it('works before its background threads, and so does its Postgres', async () => {
    const threads = readdirSync(`/proc/${vault.pid}/task`).map((thread) => ({
      isBackground: read(`/proc/${vault.pid}/task/${thread}/comm`) === 'V8Worker',
      priority: getPriority(Number(thread)),
    }));
    const own = getPriority(vault.pid);
    const background = threads.filter(({ isBackground }) => isBackground);
    expect(background.length).toBeGreaterThan(0);
    for (const { priority } of background) expect(priority).toBe(Math.min(19, own + 10));
    expect(getPriority(await vault.postmasterPid())).toBe(own);
  });
});
