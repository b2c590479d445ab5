import { threadShares } from '@token-vault/batching';
import { connect, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import type { Handlers } from '@token-vault/operations';
import { DomainError, itemErrorOf } from '@token-vault/contracts';
import { RootKeyUnavailableError, RootKeyUnusableError } from '@token-vault/crypto';
import { EventStoreUnavailableError } from '@token-vault/event-store';
import { inFlight } from '../src/index.ts';
import { applicationId, goodKey, tenantId } from './tiny-app.ts';
import { canary, expectProblem, useEdge } from './edge.ts';

const edge = useEdge();
const { start } = edge;

/** Sends a large body to create a token of it. */
function sendBody(body: string): Socket {
  const socket = connect(edge.app.port, '127.0.0.1');
  const head = [
    'POST /tokens HTTP/1.1',
    'Host: x',
    `SVC-API-KEY: ${goodKey}`,
    'Content-Type: application/json',
  ];
  socket.write([...head, `Content-Length: ${body.length}`, '', body].join('\r\n'));
  return socket;
}

describe('an error', () => {
  const failing = (error: Error): Handlers => ({ getToken: () => Promise.reject(error) });

  it('that is unexpected shows the caller no details and the log neither message nor data', async () => {
    const error = Object.assign(new Error(`duplicate key (number)=(${canary})`), {
      detail: canary,
      code: '23505',
    });
    await start({ handlers: failing(error) });
    const reply = await edge.app.send('/tokens/abc');
    expectProblem(reply, 500);
    expect(Object.keys(reply.body)).not.toContain('errors');
    const line = edge.app.lines.find((each) => each.msg === 'request failed');
    expect(line).toMatchObject({ error_code: '23505', operation: 'getToken', status: 500 });
    expect(line?.trace_id).toBe(reply.headers['svc-trace-id']);
    expect(JSON.stringify(edge.app.lines) + reply.text).not.toContain('4111');
  });

  it.each([
    new DomainError('not_found', 'Token was not found.'),
    new DomainError('validation_failed', 'see errors', { errors: { 'data.number': ['is required'] } }),
  ])('of an item of a request for many tokens is that of the request for it alone: $code', async (error) => {
    await start({ handlers: failing(error) });
    expect((await edge.app.send('/tokens/abc')).body).toMatchObject(itemErrorOf(error));
  });

  it.each([
    ['the event store', new EventStoreUnavailableError('down')],
    ['a sealed KMS', new RootKeyUnavailableError('sealed')],
    ['a KMS that refuses the token', new RootKeyUnusableError('refused')],
    ['a refused connection', Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })],
    ['a lost connection', new Error('Connection terminated unexpectedly')],
    ['a database that stops', Object.assign(new Error('stop'), { code: '57P01' })],
    ['a database without room', Object.assign(new Error('full'), { code: '53100' })],
  ])('of %s is 503 and says when to try again', async (_what, error) => {
    await start({ handlers: failing(error) });
    const reply = await edge.app.send('/tokens/abc');
    expectProblem(reply, 503);
    expect(reply.headers['retry-after']).toBe('1');
  });

  it.each([
    ['reactor_failed', 500],
    ['destination_failed', 502],
    ['destination_timed_out', 504],
  ] as const)(
    'of code or a destination of a tenant (%s) is no error in the log of the operator',
    async (code, status) => {
      await start({ handlers: failing(new DomainError(code, `said ${canary}`)) });
      const reply = await edge.app.send('/tokens/abc');
      expectProblem(reply, status);
      const failed = edge.app.lines.filter((line) => line.trace_id === reply.headers['svc-trace-id']);
      expect(failed).toMatchObject([{ level: 30, code, status, operation: 'getToken' }]);
      expect(JSON.stringify(failed)).not.toMatch(/stack|4111/);
    },
  );

  it('in the answer is sent as one problem', async () => {
    await start({ handlers: { getToken: async () => ({ body: { big: 1n } }) } });
    expectProblem(await edge.app.send('/tokens/abc'), 500);
    expectProblem(await edge.app.send('/tokens/abc'), 500);
  });
});

describe('a client that disconnects', () => {
  it('in the middle of its body leaves no error in the log, and others are served', async () => {
    await start();
    const socket = connect(edge.app.port, '127.0.0.1');
    socket.write(
      `POST /tokens HTTP/1.1\r\nHost: x\r\nSVC-API-KEY: ${goodKey}\r\nContent-Length: 1000\r\n\r\n{"type":`,
    );
    await expect.poll(async () => (await edge.app.send('/tokens/abc')).status).toBe(200);
    socket.destroy();
    await expect.poll(() => edge.app.lines.map((line) => line.msg)).toContain('request refused');
    expect(edge.app.lines.filter((line) => Number(line.level) >= 40)).toEqual([]);
  });

  it('before its answer is ready has no effect on other requests', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const { promise: reached, resolve: reach } = Promise.withResolvers<void>();
    const waiting = async () => {
      reach();
      await promise;
      return { body: {} };
    };
    await start({ handlers: { getToken: waiting } });
    const socket = connect(edge.app.port, '127.0.0.1');
    socket.write(`GET /tokens/abc HTTP/1.1\r\nHost: x\r\nSVC-API-KEY: ${goodKey}\r\n\r\n`);
    await reached;
    socket.destroy();
    resolve();
    expect((await edge.app.send('/tokens')).status).toBe(200);
    expect(edge.app.lines.filter((line) => Number(line.level) >= 40)).toEqual([]);
  });

  it('while the work for it goes on has its body counted until the work ends, and the work is told', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const { promise: reached, resolve: reach } = Promise.withResolvers<AbortSignal | undefined>();
    const createToken: Handlers['createToken'] = async (_input, { signal }) => {
      reach(signal);
      await promise;
      return { body: {} };
    };
    await start({ handlers: { createToken } });
    const before = inFlight.held;
    const body = JSON.stringify({ type: 'token', data: 'x'.repeat(32 * 1024) });
    const socket = sendBody(body);
    const signal = await reached;
    socket.destroy();
    await expect.poll(() => signal?.aborted).toBe(true);
    expect(inFlight.held - before).toBe(body.length);
    resolve();
    await expect.poll(() => inFlight.held - before).toBe(0);
    expect(edge.app.lines.filter((line) => Number(line.level) >= 40)).toEqual([]);
  });

  it('while its body waits for its turn has it taken out of the queue', async () => {
    await start();
    const turn = await threadShares.begin({ tenantId, applicationId });
    const before = inFlight.held;
    const body = JSON.stringify({ type: 'token', data: 'x'.repeat(32 * 1024) });
    const socket = sendBody(body);
    await expect.poll(() => inFlight.held - before).toBe(body.length);
    socket.destroy();
    await expect.poll(() => edge.app.lines.map((line) => line.msg)).toContain('request refused');
    await expect.poll(() => inFlight.held - before).toBe(0);
    turn.end();
  });

  it('after it has its answer has no work that is told', async () => {
    const { promise: reached, resolve: reach } = Promise.withResolvers<AbortSignal | undefined>();
    const getToken: Handlers['getToken'] = async (_input, { signal }) => {
      reach(signal);
      return { body: {} };
    };
    await start({ handlers: { getToken } });
    await edge.app.send('/tokens/abc');
    await edge.app.send('/tokens/abc');
    expect((await reached)?.aborted).toBe(false);
  });
});
