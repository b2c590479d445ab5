import { readFile } from 'node:fs/promises';
import {
  createDataDirectory,
  removeDataDirectory,
  startStandaloneProcess,
  waitUntil,
} from '@token-vault/test-support';
import { expect, it, onTestFinished } from 'vitest';
import { linesOf } from './log-lines.ts';
import { startSignalledStack } from './signalled-stack.ts';

/** 3 s for the router to notice, 5 s for the connections, and time for a busy machine. A runner waits longer, because it may have outcomes to record. */
const endsWithinMs = (name: string): number => (name.startsWith('reactor-runner') ? 30_000 : 20_000);

const isThere = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

/** Stops the processes of a Postgres. Gives the function that lets them go on, those that are still there. */
async function freeze(postmaster: number): Promise<() => void> {
  const backends = await readFile(`/proc/${postmaster}/task/${postmaster}/children`, 'utf8');
  const frozen = [postmaster, ...backends.trim().split(' ').map(Number)];
  for (const pid of frozen) process.kill(pid, 'SIGSTOP');
  return () => frozen.filter(isThere).forEach((pid) => process.kill(pid, 'SIGCONT'));
}

it('npm start ends at SIGTERM, although its Postgres does not answer, and starts again', async () => {
  const dataDir = await createDataDirectory();
  onTestFinished(() => removeDataDirectory(dataDir));
  const vault = await startStandaloneProcess({ dataDir, stack: 'standalone' });
  const goOn = await freeze(await vault.postmasterPid());
  onTestFinished(goOn);
  vault.signal('SIGTERM');
  const [exit] = await Promise.all([
    vault.exited,
    waitUntil(() => !isThere(vault.pid), { timeoutMs: 60_000, what: 'the end of the vault' }),
  ]);
  expect(exit.code).toBe(0);
  goOn();
  const again = await startStandaloneProcess({ dataDir, stack: 'standalone' });
  await again.client().expect(200, 'GET', '/tenants/self');
  await again.stop();
});

it('each service ends at SIGTERM, although Postgres does not answer', async () => {
  const stack = await startSignalledStack({});
  onTestFinished(() => stack.remove());
  await stack.allReady();
  const members = (await stack.members()).filter(({ name }) => !['postgres', 'gateway'].includes(name));
  const goOn = await freeze(await stack.vault.postmasterPid());
  try {
    const ended = members.map(async ({ name, pid }) => {
      process.kill(pid, 'SIGTERM');
      await waitUntil(() => !isThere(pid), { timeoutMs: endsWithinMs(name), what: `the end of ${name}` });
    });
    await Promise.all(ended);
    const cutOff = linesOf(stack.vault.output()).filter(({ msg }) => msg.startsWith('not stopped in time'));
    expect(cutOff.filter(({ service }) => service !== 'reactor-runner')).toEqual([]);
  } finally {
    goOn();
  }
  await stack.allReady();
  await stack.vault.stop();
});
