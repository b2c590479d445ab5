import { readFile } from 'node:fs/promises';
import { waitUntil } from '@token-vault/test-support';
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

it('each service ends at SIGTERM, although Postgres does not answer', async () => {
  const stack = await startSignalledStack({});
  onTestFinished(() => stack.remove());
  await stack.allReady();
  const postmaster = await stack.vault.postmasterPid();
  const backends = await readFile(`/proc/${postmaster}/task/${postmaster}/children`, 'utf8');
  const frozen = [postmaster, ...backends.trim().split(' ').map(Number)];
  const members = (await stack.members()).filter(({ name }) => !['postgres', 'gateway'].includes(name));
  for (const pid of frozen) process.kill(pid, 'SIGSTOP');
  try {
    const ended = members.map(async ({ name, pid }) => {
      process.kill(pid, 'SIGTERM');
      await waitUntil(() => !isThere(pid), { timeoutMs: endsWithinMs(name), what: `the end of ${name}` });
    });
    await Promise.all(ended);
    const cutOff = linesOf(stack.vault.output()).filter(({ msg }) => msg.startsWith('not stopped in time'));
    expect(cutOff.filter(({ service }) => service !== 'reactor-runner')).toEqual([]);
  } finally {
    for (const pid of frozen) process.kill(pid, 'SIGCONT');
  }
  await stack.allReady();
  await stack.vault.stop();
});
