import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { silentLogger } from '../src/logger.ts';
import { lockFileMark, Server } from '../src/server.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(path.join(tmpdir(), 'server-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

it('a lock file of a killed run does not count as a ready Postgres, although it has the same process id, as in a container', async () => {
  const child = spawn('cat', { stdio: ['pipe', 'ignore', 'pipe'] });
  const server = new Server(child, silentLogger, () => Promise.resolve());
  const write = () =>
    writeFile(path.join(directory, 'postmaster.pid'), `${child.pid}\n${'\n'.repeat(6)}ready\n`);
  await write();
  let isReady = false;
  const ready = server.ready(directory, await lockFileMark(directory)).then(() => (isReady = true));
  // Longer than the 10 ms between two looks at the file.
  await sleep(100);
  expect(isReady).toBe(false);
  await write();
  await ready;
  await server.stop();
});
