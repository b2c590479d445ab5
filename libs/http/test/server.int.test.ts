import { waitUntil } from '@token-vault/test-support';
import { once } from 'node:events';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { listen, type RunningServer } from '../src/index.ts';

let server: RunningServer;
let answer: (() => void) | undefined;
/** Answers when the test says so. */
beforeEach(async () => {
  answer = undefined;
  server = await listen(
    (_request, response) => {
      answer = () => response.writeHead(201, { 'Content-Length': 4 }).end('done');
    },
    { host: '127.0.0.1', port: 0 },
  );
});
afterEach(() => server.stop(0));

/** Sends raw bytes; returns all received bytes until the server closes. */
async function exchange(
  bytes: string,
  meanwhile: () => void | Promise<void> = () => undefined,
): Promise<string> {
  const socket = connect(server.port, '127.0.0.1');
  await once(socket, 'connect');
  socket.write(bytes);
  const received = text(socket);
  await meanwhile();
  return received;
}

const problemIn = (received: string) => {
  const [head = '', body = ''] = received.split('\r\n\r\n').slice(-2);
  expect(head).toContain('Content-Type: application/problem+json');
  const traceId = /SVC-TRACE-ID: (\S+)/.exec(head)?.[1];
  const problem = JSON.parse(body) as { status: number; trace_id: string };
  expect(problem.trace_id).toBe(traceId);
  return problem;
};

describe('a request that is followed by garbage on its connection', () => {
  it('is answered before the garbage is refused', async () => {
    const bytes = 'POST /tokens HTTP/1.1\r\nHost: vault\r\nContent-Length: 2\r\n\r\n{}\0garbage\r\n\r\n';
    const received = await exchange(bytes, async () => {
      await waitUntil(() => answer !== undefined);
      setImmediate(() => answer?.());
    });
    expect(received).toMatch(/^HTTP\/1\.1 201 Created\r\n[^]*done/);
    expect(problemIn(received).status).toBe(400);
  });
});

describe('requests that Node refuses by itself', () => {
  it.each([
    [400, 'GET / HTTP/1.1\r\n\r\n', 'without a host'],
    [417, 'GET / HTTP/1.1\r\nHost: vault\r\nExpect: tea\r\n\r\n', 'with an expectation'],
    [
      400,
      'GET / HTTP/1.1\r\nHost: vault\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
      'of two lengths',
    ],
    [
      400,
      'POST / HTTP/1.1\r\nHost: vault\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"a":\r\nno length\r\n',
      'with a malformed chunk',
    ],
    [431, `GET / HTTP/1.1\r\nHost: vault\r\nX: ${'x'.repeat(40_000)}\r\n\r\n`, 'with large headers'],
  ])('is a problem with a trace id: %i', async (status, bytes) => {
    const received = await exchange(bytes);
    expect(received).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    expect(problemIn(received).status).toBe(status);
  });
});

describe('a stopping server', () => {
  const request = (path: string) => `GET ${path} HTTP/1.1\r\nHost: vault\r\n\r\n`;

  it('reports that it is not ready, still answers, and ends each connection with the answer', async () => {
    const idle = connect(server.port, '127.0.0.1');
    await once(idle, 'connect');
    const draining = server.drain(10_000);
    const refused = await exchange(request('/health/ready'));
    expect(problemIn(refused).status).toBe(503);
    const received = text(idle);
    idle.write(request('/tokens'));
    await waitUntil(() => answer !== undefined);
    answer?.();
    expect(await received).toMatch(/^HTTP\/1\.1 201 Created\r\n[^]*Connection: close\r\n[^]*done$/);
    // No connection is left to wait for.
    await draining;
  });
});
