import express from 'express';
import { expect, it, onTestFinished, vi } from 'vitest';
import { listen, mountHealth } from '../src/index.ts';
import { silentLogger } from '@token-vault/observability';

/** A store that a test can stop, the log lines about it, and the health of a process that depends on it. */
function startHealth() {
  const told: string[] = [];
  const tell = (fields: object, message?: string) => {
    told.push(message ?? '');
    expect(fields).toMatchObject({ reason: 'store' });
    expect(fields).not.toHaveProperty('stack', expect.anything());
  };
  const state = { isAway: false };
  const store = () => (state.isAway ? Promise.reject(new Error('away')) : Promise.resolve());
  const app = express();
  const health = mountHealth(app, { store }, { ...silentLogger, warn: tell, info: tell });
  onTestFinished(() => health.close());
  return { app, told, state };
}

it('a failing part is logged once, however often it is checked, and again when it works', async () => {
  const { app, told, state } = startHealth();
  state.isAway = true;
  const server = await listen(app, { host: '127.0.0.1', port: 0 });
  const ask = async () => (await fetch(`http://127.0.0.1:${server.port}/health/ready`)).status;
  expect([await ask(), await ask(), await ask()]).toEqual([503, 503, 503]);
  state.isAway = false;
  expect([await ask(), await ask()]).toEqual([200, 200]);
  state.isAway = true;
  expect(await ask()).toBe(503);
  state.isAway = false;
  expect(await ask()).toBe(200);
  await server.stop(0);
  // The first failure is that of a start.
  expect(told).toEqual(['not ready yet', 'ready', 'not ready', 'ready again']);
});

it('a failing part is also logged by a process without health checks', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const { told, state } = startHealth();
  for (const isAway of [false, true, true, false, false]) {
    state.isAway = isAway;
    await vi.advanceTimersByTimeAsync(4_000);
  }
  expect(told).toEqual(['not ready', 'ready again']);
});
