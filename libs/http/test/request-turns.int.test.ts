import { PresentTenants } from '@token-vault/batching';
import { waitUntil } from '@token-vault/test-support';
import { once } from 'node:events';
import { connect } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { RequestTurns } from '../src/request-turns.ts';
import { goodKey, principalWith, send, startTinyApp, type TinyApp } from './tiny-app.ts';

const otherKey = 'key_pvt_other00000000000000000';
const otherTenant = '33333333-3333-4333-8333-333333333333';
const colleagueKey = 'key_pvt_colleague000000000000';
const colleague = '44444444-4444-4444-8444-444444444444';
const tenant = { id: otherTenant, plan: 'standard' as const, settings: {} };

let app: TinyApp;
let turns: RequestTurns;
/** Callers, in the order in which their requests began. */
let begun: string[];
let [running, most] = [0, 0];
let [finished, finish] = [Promise.resolve(), () => {}];
/** The requests that wait for a position so far, and whether it is reached. */
let waits = 0;
let [reached, decide] = [Promise.resolve(true), (_isReached: boolean) => {}];

beforeEach(async () => {
  begun = [];
  ({ promise: finished, resolve: finish } = Promise.withResolvers<void>());
  ({ promise: reached, resolve: decide } = Promise.withResolvers<boolean>());
  [running, most, waits] = [0, 0, 0];
  turns = new RequestTurns({ present: new PresentTenants(), countedMs: 60_000 });
  app = await startTinyApp({
    authentications: {
      [otherKey]: { kind: 'authenticated', principal: principalWith({ tenant }), keyHash: 'other' },
      [colleagueKey]: {
        kind: 'authenticated',
        principal: principalWith({ applicationId: colleague }),
        keyHash: 'colleague',
      },
    },
    dependencies: { turns },
    waitFor: (position) => {
      if (position === '99') waits += 1;
      return position === '99' ? reached : Promise.resolve(true);
    },
    handlers: {
      createToken: async () => ({ body: {} }),
      async getToken({ params }, context) {
        const { tenant: by, applicationId } = context.principal;
        if (by.id === otherTenant) begun.push('other');
        else begun.push(applicationId === colleague ? 'colleague' : 'greedy');
        running += 1;
        most = Math.max(most, running);
        if (params.id === 'waits') context.waitsForOthers();
        if (params.id !== 'some-token') await finished;
        running -= 1;
        return { body: {} };
      },
    },
  });
});
afterEach(() => app.stop());

const readAs = (key: string, id = 'some-token') =>
  send(app.port, `/tokens/${id}`, { headers: { 'SVC-API-KEY': key } });

describe('a tenant that sends 400 requests at once', () => {
  it('delays a request of another tenant by its running requests, not by its waiting ones', async () => {
    const all = Array.from({ length: 400 }, () => readAs(goodKey, 'long'));
    await waitUntil(() => turns.waiting === 336);
    const others = [readAs(otherKey)];
    await waitUntil(() => turns.waiting === 337);
    finish();
    const replies = await Promise.all([...all, ...others]);
    expect(replies.every(({ status }) => status === 200)).toBe(true);
    expect(begun.indexOf('other')).toBeLessThanOrEqual(65);
    expect(most).toBe(64);
  });

  it('delays those of its other applications as little', async () => {
    const all = Array.from({ length: 400 }, () => readAs(goodKey, 'long'));
    await waitUntil(() => turns.waiting === 336);
    const colleagues = readAs(colleagueKey);
    await waitUntil(() => turns.waiting === 337);
    finish();
    await Promise.all([...all, colleagues]);
    expect(begun.indexOf('colleague')).toBeLessThanOrEqual(66);
  });

  it('has the requests of a disconnected client removed from the queue', async () => {
    const long = Array.from({ length: 64 }, () => readAs(goodKey, 'long'));
    await waitUntil(() => running === 64);
    const socket = connect(app.port, '127.0.0.1');
    await once(socket, 'connect');
    socket.write(`GET /tokens/waits HTTP/1.1\r\nHost: vault\r\nSVC-API-KEY: ${goodKey}\r\n\r\n`);
    await waitUntil(() => turns.waiting === 1);
    socket.destroy();
    await waitUntil(() => turns.waiting === 0);
    finish();
    await Promise.all(long);
    expect(begun.length).toBe(64);
  });
});

describe('a request that holds no place', () => {
  it('is one that waits for other requests: reactor code may send any number of requests', async () => {
    const waiting = Array.from({ length: 100 }, () => readAs(goodKey, 'waits'));
    await waitUntil(() => running === 100);
    expect((await readAs(goodKey)).status).toBe(200);
    finish();
    await Promise.all(waiting);
  });

  it('is one that waits for a position, until the read models have reached it', async () => {
    const readAt = (position: string) =>
      send(app.port, '/tokens/long', { headers: { 'SVC-API-KEY': goodKey, 'SVC-POSITION': position } });
    const waiting = Array.from({ length: 100 }, () => readAt('99'));
    await waitUntil(() => waits === 100);
    expect((await readAs(goodKey)).status).toBe(200);
    expect((await readAs(otherKey)).status).toBe(200);
    decide(true);
    await waitUntil(() => running + turns.waiting === 100);
    expect(running).toBeLessThanOrEqual(64);
    finish();
    expect((await Promise.all(waiting)).every(({ status }) => status === 200)).toBe(true);
    expect(most).toBeLessThanOrEqual(64);
  });

  it('does not take one after it waited for a position, when its client has gone', async () => {
    const responses = vi.spyOn(turns, 'of');
    const socket = connect(app.port, '127.0.0.1');
    await once(socket, 'connect');
    const headers = `Host: vault\r\nSVC-API-KEY: ${goodKey}\r\nSVC-POSITION: 99`;
    socket.write(`GET /tokens/gone HTTP/1.1\r\n${headers}\r\n\r\n`);
    await waitUntil(() => waits === 1);
    const [response] = responses.mock.lastCall ?? [];
    const long = Array.from({ length: 64 }, () => readAs(goodKey, 'long'));
    await waitUntil(() => running === 64);
    socket.destroy();
    await waitUntil(() => response?.closed === true);
    decide(true);
    // Requests of one application keep their order, so this one would come after the one of the client that has gone.
    const last = readAs(goodKey);
    await waitUntil(() => turns.waiting > 0);
    finish();
    await Promise.all([...long, last]);
    expect(begun.length).toBe(65);
  });

  it('is one whose body has not arrived', async () => {
    const head = `POST /tokens HTTP/1.1\r\nHost: vault\r\nSVC-API-KEY: ${goodKey}\r\nContent-Length: 9\r\n\r\n`;
    const sockets = Array.from({ length: 100 }, () => connect(app.port, '127.0.0.1'));
    await Promise.all(sockets.map((socket) => once(socket, 'connect')));
    for (const socket of sockets) socket.write(`${head}{`);
    expect((await readAs(goodKey)).status).toBe(200);
    for (const socket of sockets) socket.destroy();
  });
});
