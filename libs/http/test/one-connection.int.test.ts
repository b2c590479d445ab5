import { waitUntil } from '@token-vault/test-support';
import { once } from 'node:events';
import type { RequestListener } from 'node:http';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { listen, type RunningServer } from '../src/index.ts';

let server: RunningServer;
let [running, most] = [0, 0];
const begun: string[] = [];
/** The server's connections of these requests. */
const connections: Socket[] = [];
/** Each request waits for this before it is answered with its own path and body. */
let work: () => Promise<unknown>;
const listener: RequestListener = (request, response) => {
  begun.push(request.url ?? '');
  connections.push(request.socket);
  running += 1;
  most = Math.max(most, running);
  void (async () => {
    const body = await text(request).catch(() => 'cut');
    await work();
    running -= 1;
    response.end(`<${request.url} ${body}>`);
  })();
};
beforeEach(async () => {
  [running, most] = [0, 0];
  begun.length = 0;
  connections.length = 0;
  work = () => Promise.resolve();
  server = await listen(listener, { host: '127.0.0.1', port: 0 });
});
afterEach(() => server.stop(0));

async function opened(): Promise<Socket> {
  const socket = connect(server.port, '127.0.0.1');
  await once(socket, 'connect');
  return socket;
}

/** Every third request has a body. */
const requestOf = (index: number) =>
  index % 3 === 0
    ? `POST /${index} HTTP/1.1\r\nHost: vault\r\nContent-Length: 6\r\n\r\nbody ${index % 10}`
    : `GET /${index} HTTP/1.1\r\nHost: vault\r\n\r\n`;
const answerOf = (index: number) => `</${index} ${index % 3 === 0 ? `body ${index % 10}` : ''}>`;

describe('many requests that a client sends on one connection without waiting', () => {
  it('run one after the other, and any number of them is answered in order', async () => {
    const count = 1_000;
    const indexes = Array.from({ length: count }, (_, index) => index);
    const socket = await opened();
    let received = '';
    socket.on('data', (bytes: Buffer) => (received += bytes.toString()));
    socket.write(indexes.map(requestOf).join(''));
    await waitUntil(() => received.includes(answerOf(count - 1)), { timeoutMs: 60_000 });
    expect(received.match(/<\/\d+ [^>]*>/g)).toEqual(indexes.map(answerOf));
    expect(most).toBe(1);
    socket.destroy();
  });

  it('are not started after the client has disconnected', async () => {
    let finish: () => void = () => undefined;
    work = () => new Promise<void>((resolve) => (finish = resolve));
    const socket = await opened();
    socket.write([1, 2, 4, 5].map(requestOf).join(''));
    await waitUntil(() => begun.length > 0);
    socket.resetAndDestroy();
    await waitUntil(() => connections[0]?.destroyed);
    finish();
    const other = await opened();
    other.write(requestOf(7));
    await waitUntil(() => begun.includes('/7'));
    finish();
    expect(begun).toEqual(['/1', '/7']);
    other.destroy();
  });

  it('end the connection when they are more than a thousand: others are served at once', async () => {
    work = () => new Promise<void>(() => undefined);
    const socket = await opened();
    socket.on('error', () => undefined);
    socket.write(Buffer.from(requestOf(1).repeat(200_000)));
    await new Promise((resolve) => socket.once('close', resolve));
    expect(begun).toEqual(['/1']);
    work = () => Promise.resolve();
    const other = await opened();
    other.write(requestOf(7));
    await waitUntil(() => begun.includes('/7'), { timeoutMs: 2_000 });
    other.destroy();
  });

  it.each([
    ['heads', `GET /2 HTTP/1.1\r\nHost: vault\r\nX-Long: ${'x'.repeat(12_000)}\r\n\r\n`],
    ['paths', `GET /2?${'x'.repeat(12_000)} HTTP/1.1\r\nHost: vault\r\n\r\n`],
    ['bodies', `POST /2 HTTP/1.1\r\nHost: vault\r\nContent-Length: 12000\r\n\r\n${'x'.repeat(12_000)}`],
  ])('end the connection when their %s hold more than 256 KiB', async (_, request) => {
    work = () => new Promise<void>(() => undefined);
    const socket = await opened();
    socket.on('error', () => undefined);
    socket.write(requestOf(1) + request.repeat(15));
    await waitUntil(() => begun.length > 0);
    // The server has no event for requests that it accepts. It would end the connection within 50 ms.
    await delay(50);
    expect(socket.destroyed).toBe(false);
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.write(request.repeat(15));
    await closed;
    expect(begun).toEqual(['/1']);
  });

  it('use no memory of the queue once they run, for any sum of their sizes', async () => {
    const long = `GET /2 HTTP/1.1\r\nHost: vault\r\nX-Long: ${'x'.repeat(12_000)}\r\n\r\n`;
    const socket = await opened();
    let received = '';
    socket.on('data', (bytes: Buffer) => (received += bytes.toString()));
    for (let round = 1; round <= 6; round += 1) {
      socket.write(long.repeat(10));
      await waitUntil(() => received.match(/<\/2 >/g)?.length === round * 10);
    }
    socket.destroy();
  });

  it('do not delay other connections', async () => {
    let finish: (() => void) | undefined;
    work = () => new Promise<void>((resolve) => (finish = resolve));
    const socket = await opened();
    socket.write([1, 2, 4].map(requestOf).join(''));
    await waitUntil(() => finish !== undefined);
    expect(begun).not.toContain('/2');
    work = () => Promise.resolve();
    const other = await opened();
    other.write(requestOf(7));
    let received = '';
    other.on('data', (bytes: Buffer) => (received += bytes.toString()));
    await waitUntil(() => received.includes(answerOf(7)));
    finish?.();
    await waitUntil(() => begun.includes('/4'));
    socket.destroy();
    other.destroy();
  });
});
