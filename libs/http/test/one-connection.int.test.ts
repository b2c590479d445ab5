import { waitUntil } from '@token-vault/test-support';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import type { RequestListener, ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { listen, type RunningServer } from '../src/index.ts';

let server: RunningServer;
let [running, most] = [0, 0];
const begun: string[] = [];
/** The number of requests that the server has read. */
let read = 0;
const onRead = () => (read += 1);
/** The server's connections of these requests. */
const connections: Socket[] = [];
const answers: ServerResponse[] = [];
/** Each request waits for this before it is answered with its own path and body. */
let work: () => Promise<unknown>;
const listener: RequestListener = (request, response) => {
  begun.push(request.url ?? '');
  connections.push(request.socket);
  answers.push(response);
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
  answers.length = 0;
  read = 0;
  subscribe('http.server.request.start', onRead);
  work = () => Promise.resolve();
  server = await listen(listener, { host: '127.0.0.1', port: 0 });
});
afterEach(async () => {
  unsubscribe('http.server.request.start', onRead);
  await server.stop(0);
});

async function opened(): Promise<Socket> {
  const socket = connect(server.port, '127.0.0.1');
  await once(socket, 'connect');
  return socket;
}

/** Opens a connection and waits until its request begins. */
async function otherIsServed(): Promise<void> {
  work = () => Promise.resolve();
  const other = await opened();
  other.write(requestOf(7));
  await waitUntil(() => begun.includes('/7'));
  other.destroy();
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

  it('are read few at a time, and the others when these have their answers', async () => {
    let finish: () => void = () => undefined;
    work = () => new Promise<void>((resolve) => (finish = resolve));
    const count = 900;
    const socket = await opened();
    let received = '';
    socket.on('data', (bytes: Buffer) => (received += bytes.toString()));
    socket.write('GET /1 HTTP/1.1\r\nHost: vault\r\n\r\n'.repeat(count));
    await waitUntil(() => begun.length > 0);
    await otherIsServed();
    expect(begun.filter((path) => path === '/1')).toHaveLength(1);
    expect(read).toBeLessThanOrEqual(2 * 16 + 1);
    finish();
    await waitUntil(() => received.match(/<\/1 >/g)?.length === count, { timeoutMs: 60_000 });
    socket.destroy();
  });

  it('are not read further while one of them waits with a part of its body', async () => {
    work = () => new Promise<void>(() => undefined);
    const socket = await opened();
    socket.on('error', () => undefined);
    socket.write(requestOf(1) + 'POST /2 HTTP/1.1\r\nHost: vault\r\nTransfer-Encoding: chunked\r\n\r\n3');
    // Node gets each piece in two parts: up to the sixteenth empty line, and the first digit of the next size, which brings no byte of the body.
    const data = `${'x'.repeat(12_222)}${'\r\n\r\n'.repeat(15)}${'x'.repeat(4)}\r\n`;
    const piece = Buffer.from(`${data.length.toString(16).slice(1)}\r\n${data}\r\n3`);
    expect(data.length.toString(16)).toMatch(/^3/);
    await waitUntil(() => begun.length > 0);
    for (let count = 0; count < 100; count += 1) {
      socket.write(piece);
      // The server reads each piece before the next one is there.
      for (let turns = 0; turns < 5; turns += 1) await turn();
    }
    expect(connections[0]?.bytesRead).toBeLessThan(50 * piece.length);
    socket.destroy();
  });

  it('hold up no other connection while they are read', async () => {
    work = () => new Promise<void>(() => undefined);
    const socket = await opened();
    socket.on('error', () => undefined);
    socket.write(Buffer.from(requestOf(1).repeat(200_000)));
    await waitUntil(() => begun.length > 0);
    await otherIsServed();
    expect(begun).toEqual(['/1', '/7']);
    socket.destroy();
  });

  it('end a connection when those of all connections are too many; others are served', async () => {
    const finishes: (() => void)[] = [];
    work = () => new Promise<void>((resolve) => finishes.push(resolve));
    const sockets = await Promise.all(Array.from({ length: 200 }, opened));
    let closed = 0;
    for (const socket of sockets) {
      socket.on('error', () => undefined).on('close', () => (closed += 1));
      socket.resume();
      socket.write(requestOf(1).repeat(100));
    }
    await waitUntil(() => closed > 0);
    await otherIsServed();
    expect(read).toBeLessThanOrEqual(8_192);
    for (const socket of sockets) socket.destroy();
    // What is not read does not tell that its client has gone, but an answer does.
    for (const finish of finishes) finish();
    await waitUntil(() => connections.slice(0, -1).every(({ destroyed }) => destroyed));
    // Those of closed connections do not count.
    const again = await Promise.all(Array.from({ length: 100 }, opened));
    let received = 0;
    for (const socket of again) {
      socket.on('data', (bytes: Buffer) => (received += bytes.toString().match(/<\/1 >/g)?.length ?? 0));
      socket.write(requestOf(1).repeat(40));
    }
    await waitUntil(() => received === 4_000, { timeoutMs: 60_000 });
    for (const socket of again) socket.destroy();
  });

  it('are not read after malformed bytes: the requests before them are answered, then the connection ends', async () => {
    let finish: () => void = () => undefined;
    work = () => new Promise<void>((resolve) => (finish = resolve));
    const socket = await opened();
    socket.on('error', () => undefined);
    const received = text(socket);
    socket.write(requestOf(1));
    await waitUntil(() => begun.length > 0);
    for (let count = 0; count < 20; count += 1) {
      socket.write('garbage\r\n\r\n');
      for (let turns = 0; turns < 5; turns += 1) await turn();
    }
    expect(answers[0]?.listenerCount('close')).toBeLessThan(10);
    finish();
    expect(await received).toMatch(/<\/1 >HTTP\/1.1 400 /);
  });

  it('begin in different turns of the event loop', async () => {
    let turn = 0;
    let timer: NodeJS.Immediate;
    const tick = () => {
      turn += 1;
      timer = setImmediate(tick);
    };
    tick();
    const turns: number[] = [];
    work = () => Promise.resolve(turns.push(turn));
    const socket = await opened();
    socket.write(requestOf(1).repeat(50));
    await waitUntil(() => turns.length === 50).finally(() => clearImmediate(timer));
    expect(new Set(turns).size).toBe(50);
    socket.destroy();
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
