import express from 'express';
import { expect, it } from 'vitest';
import { listen, mountHealth } from '../src/index.ts';
import { silentLogger } from '@token-vault/observability';

it('a part that fails is told once, however often it is asked for, and when it works again', async () => {
  const told: string[] = [];
  const tell = (fields: object, message?: string) => {
    told.push(message ?? '');
    expect(fields).toMatchObject({ reason: 'store' });
    expect(fields).not.toHaveProperty('stack', expect.anything());
  };
  let isAway = true;
  const store = () => (isAway ? Promise.reject(new Error('away')) : Promise.resolve());
  const app = express();
  mountHealth(app, { store }, { ...silentLogger, warn: tell, info: tell });
  const server = await listen(app, { host: '127.0.0.1', port: 0 });
  const ask = async () => (await fetch(`http://127.0.0.1:${server.port}/health/ready`)).status;
  expect([await ask(), await ask(), await ask()]).toEqual([503, 503, 503]);
  isAway = false;
  expect([await ask(), await ask()]).toEqual([200, 200]);
  isAway = true;
  expect(await ask()).toBe(503);
  isAway = false;
  expect(await ask()).toBe(200);
  await server.stop(0);
  // The first failure is that of a start.
  expect(told).toEqual(['not ready yet', 'ready', 'not ready', 'ready again']);
});
