import { spawn } from 'node:child_process';
import { Socket } from 'node:net';
import type { Account } from './account.ts';
import { identityOf } from './cluster.ts';

/**
 * Stops Postgres when this process ends without stopping it (killed, crashed): a shell waits on a pipe that only this process holds, and
 * the kernel closes the pipe when the process ends. Returns the function that ends the watchdog. Best effort: a Postgres that keeps
 * running, e.g. because there is no shell, is stopped by the next start.
 */
export function startWatchdog(postmaster: number, account: Account | undefined): () => void {
  const child = spawn('/bin/sh', ['-c', 'read -r _; kill -INT "$0"', String(postmaster)], {
    ...identityOf(account),
    cwd: '/',
    env: {},
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  child.on('error', () => {});
  child.stdin.on('error', () => {});
  child.unref();
  if (child.stdin instanceof Socket) child.stdin.unref();
  return () => child.kill('SIGKILL');
}
