import { randomUUID } from 'node:crypto';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, it } from 'vitest';
import { ForbiddenError, NotFoundError } from '@token-vault/contracts';
import type { Authentication } from '@token-vault/authentication';
import type { Handlers } from '@token-vault/operations';
import type { ProjectionProgress } from '@token-vault/read-models';
import { RootKeyUnavailableError, RootKeyUnusableError } from '@token-vault/crypto';
import { EventStoreUnavailableError, type Position } from '@token-vault/event-store';
import {
  applicationId,
  goodKey,
  principalWith,
  send,
  startTinyApp,
  tenantId,
  type Reply,
  type TinyApp,
  type TinyOptions,
} from './tiny-app.ts';

const canary = '4111111111111111';
let app: TinyApp;

const echo: Handlers = {
  createToken: async ({ body }) => ({ body: { type: body.type, data: body.data } }),
  getToken: async ({ params }) => ({ body: { id: params.id } }),
  listTokens: async ({ query }) => ({ body: query }),
  updateToken: async ({ body }) => ({ body: { patched: body } }),
  deleteToken: async () => ({}),
  createTransaction: async () => ({ body: { is: 'open' } }),
  getReactor: async ({ params }) => ({ body: params }),
  createApplication: async () => ({ body: {} }),
};

async function start(options: TinyOptions = {}): Promise<TinyApp> {
  app = await startTinyApp({ ...options, handlers: { ...echo, ...options.handlers } });
  return app;
}

afterEach(() => app.stop());

const json = { 'Content-Type': 'application/json' };
const post = (body: unknown, headers: Record<string, string> = json) => ({ method: 'POST', headers, body });

function expectProblem(reply: Reply, status: number): void {
  expect(reply.status).toBe(status);
  expect(reply.headers['content-type']).toBe('application/problem+json');
  expect(reply.body).toMatchObject({ status, trace_id: reply.headers['svc-trace-id'] });
  for (const field of ['type', 'title', 'detail', 'instance']) expect(reply.body[field]).toBeTypeOf('string');
}

describe('the caller', () => {
  it('is unknown without a key or with one that never existed: 401, and no tenant log records it', async () => {
    await start();
    expectProblem(await send(app.port, '/tokens/abc'), 401);
    expectProblem(await app.send('/tokens/abc', { headers: { 'SVC-API-KEY': 'key_pvt_nobody' } }), 401);
    expect(await app.events()).toEqual([]);
  });

  it('is refused with a key that is no longer valid, and the refusal is in the tenant’s log', async () => {
    const retired: Authentication = {
      kind: 'retired',
      key: { tenantId, applicationId, reason: 'regenerated' },
    };
    await start({ authentications: { key_pvt_old: retired } });
    expectProblem(await app.send('/tokens/abc', { headers: { 'SVC-API-KEY': 'key_pvt_old' } }), 401);
    const events = await app.events();
    expect(events).toMatchObject([
      { type: 'AuthenticationFailed', data: { application_id: applicationId, reason: 'regenerated' } },
    ]);
    expect(events[0]?.metadata.tenant_id).toBe(tenantId);
  });

  it('gets 403 without the permission, which is recorded', async () => {
    await start();
    expectProblem(await app.send('/reactors/33333333-3333-4333-8333-333333333333'), 403);
    const [refusal, ...others] = await app.events();
    expect(others).toEqual([]);
    expect(refusal).toMatchObject({ type: 'AccessDenied', metadata: { request: 'getReactor' } });
    // Without the id: no reactor was looked for.
    expect(refusal?.data).toEqual({
      entity_type: 'reactor',
      permission: 'reactor:read',
      operation: 'getReactor',
    });
  });

  it('is named in the record of a refusal when it was found, by its real type', async () => {
    const refuse = async () => {
      throw new ForbiddenError('Not this one.', { type: 'card', id: 'card-1' });
    };
    await start({ handlers: { getToken: refuse } });
    expectProblem(await app.send('/tokens/anything'), 403);
    expect((await app.events()).map(({ data }) => data)).toEqual([
      { entity_type: 'card', entity_id: 'card-1', permission: 'token:read', operation: 'getToken' },
    ]);
  });

  it('cannot put text into the log of refusals that a database cannot hold', async () => {
    await start({
      authentications: {
        key_mgt_other: {
          kind: 'authenticated',
          principal: principalWith({ permissions: ['log:read'] }),
          keyHash: 'other',
        },
      },
    });
    expectProblem(await app.send('/tokens/a%00b', { headers: { 'SVC-API-KEY': 'key_mgt_other' } }), 403);
    const [refusal] = await app.events();
    expect(refusal?.data).toEqual({
      entity_type: 'token',
      permission: 'token:read',
      operation: 'getToken',
    });
  });

  it('needs the enterprise plan for a transaction, also to enlist', async () => {
    await start();
    expectProblem(await app.send('/transactions', { method: 'POST' }), 403);
    const headers = { ...json, 'SVC-TRANSACTION-ID': '33333333-3333-4333-8333-333333333333' };
    expectProblem(await app.send('/tokens', post({ type: 'token', data: 1 }, headers)), 403);
    expect((await app.events()).map((event) => event.type)).toEqual(['AccessDenied', 'AccessDenied']);
  });

  it('does not get its id into the log by a transaction that the plan lacks', async () => {
    const principal = principalWith({ permissions: ['token:delete'] });
    await start({ authentications: { [goodKey]: { kind: 'authenticated', principal, keyHash: 'good' } } });
    const headers = { 'SVC-TRANSACTION-ID': '33333333-3333-4333-8333-333333333333' };
    expectProblem(await app.send(`/tokens/${canary}`, { method: 'DELETE', headers }), 403);
    const [refusal] = await app.events();
    expect(refusal?.data).toEqual({
      entity_type: 'token',
      permission: 'token:delete',
      operation: 'deleteToken',
    });
  });

  it('is refused all the same when the refusal cannot be recorded, which is logged', async () => {
    await start({
      append: () => Promise.reject(new EventStoreUnavailableError(`down ${canary}`)),
    });
    expectProblem(await app.send('/reactors/33333333-3333-4333-8333-333333333333'), 403);
    expect(app.lines).toContainEqual(expect.objectContaining({ msg: 'refusal not recorded' }));
  });
});

describe('a request that is not valid', () => {
  it('gets the dotted path of every field at fault, never a value', async () => {
    await start();
    const body = { type: canary, data: 1, metadata: { color: 4111 }, containers: [canary], expires_at: true };
    const reply = await app.send('/tokens', post(body));
    expectProblem(reply, 400);
    expect(reply.body.title).toBe('One or more validation errors occurred.');
    const errors = reply.body.errors as Record<string, string[]>;
    expect(Object.keys(errors).sort()).toEqual(['containers.0', 'expires_at', 'metadata.color', 'type']);
    expect(reply.text).not.toContain('4111');
  });

  it('is answered even when a field has the name of something every object has', async () => {
    await start();
    const errorsOf = async (metadata: string) => {
      const reply = await app.send('/tokens', post(`{"type":"token","data":1,"metadata":${metadata}}`));
      expectProblem(reply, 400);
      return reply.body.errors;
    };
    expect(await errorsOf('{"constructor":1,"toString":2}')).toEqual({
      'metadata.constructor': ['must be text'],
      'metadata.toString': ['must be text'],
    });
    // A plain assignment would set the prototype and lose the value.
    expect(await errorsOf('{"__proto__":"a"}')).toEqual({
      'metadata.__proto__': ['is a name that is not allowed'],
    });
  });

  it.each([
    ['malformed JSON', `{"type":"token","data":"${canary}`, 400],
    ['bytes that are not UTF-8', Buffer.from([0x22, 0xff, 0xfe, 0x22]), 400],
    ['nesting beyond the limit', `{"type":"token","data":${'['.repeat(200)}${']'.repeat(200)}}`, 400],
    ['nesting as deep as a body can be', '['.repeat(1024 * 512) + ']'.repeat(1024 * 512), 400],
    ['more than 1 MiB', JSON.stringify({ type: 'token', data: canary.repeat(70_000) }), 413],
  ])('with %s is refused without quoting it', async (_what, body, status) => {
    await start();
    const reply = await app.send('/tokens', post(body));
    expectProblem(reply, status);
    expect(reply.text).not.toContain('4111');
    expect(JSON.stringify(app.lines)).not.toContain('4111');
  });

  it('of unknown length is cut at 1 MiB', async () => {
    await start();
    const headers = { ...json, 'Transfer-Encoding': 'chunked' };
    expectProblem(await app.send('/tokens', post('9'.repeat(1024 * 1024 + 1), headers)), 413);
    const fits = await app.send('/tokens', post('{"type":"token","data":"x"}', headers));
    expect(fits.status).toBe(201);
  });

  it('must not be compressed', async () => {
    await start();
    expectProblem(await app.send('/tokens', post('x', { ...json, 'Content-Encoding': 'gzip' })), 415);
  });

  it('of PATCH must say that it is a merge patch', async () => {
    await start();
    const patch = (type: string) =>
      app.send('/tokens/abc', { method: 'PATCH', headers: { 'Content-Type': type }, body: {} });
    expectProblem(await patch('application/json'), 415);
    expectProblem(await app.send('/tokens/abc', { method: 'PATCH', body: {} }), 415);
    expect((await patch('Application/Merge-Patch+JSON; charset=utf-8')).status).toBe(200);
  });

  it('with a path that cannot be decoded gets 400', async () => {
    await start();
    const reply = await app.send('/tokens/%E0%A4%A');
    expectProblem(reply, 400);
    expect(reply.body.errors).toEqual({ path: ['is not valid percent-encoding'] });
  });

  it('to an unknown path is 404; with an unknown method it is 405 and names the allowed methods', async () => {
    await start();
    expectProblem(await app.send('/nowhere'), 404);
    const reply = await app.send('/tokens/abc', { method: 'PUT' });
    expectProblem(reply, 405);
    expect(reply.headers.allow).toBe('GET, PATCH, DELETE');
  });

  it('to a path that no id can be mistaken for gets 405 for its other methods; where one can, it is an id', async () => {
    await start();
    const refused = await app.send('/applications/key', { method: 'PUT' });
    expectProblem(refused, 405);
    expect(refused.headers.allow).toBe('GET');
    expect((await app.send('/tokens/search', { method: 'PUT' })).headers.allow).toBe(
      'POST, GET, PATCH, DELETE',
    );
    expect((await app.send('/tokens/search')).status).not.toBe(405);
  });

  it('that is not HTTP gets a problem too', async () => {
    await start();
    const socket = connect(app.port, '127.0.0.1');
    socket.write('WHAT IS THIS\r\n\r\n');
    const answer = await text(socket);
    expect(answer).toMatch(/^HTTP\/1.1 400 /);
    expect(answer).toContain('"status":400');
  });
});

describe('a request that is valid', () => {
  it('may have a trailing slash, other case of header names, and no body with any content type', async () => {
    await start({
      authentications: {
        key_ent: {
          kind: 'authenticated',
          principal: principalWith({ tenant: { id: tenantId, plan: 'enterprise', settings: {} } }),
          keyHash: 'ent',
        },
      },
    });
    expect((await app.send('/tokens/abc/')).body).toEqual({ id: 'abc' });
    expect((await send(app.port, '/tokens/a%20b', { headers: { 'svc-api-KEY': goodKey } })).body).toEqual({
      id: 'a b',
    });
    const form = { 'Content-Type': 'application/x-www-form-urlencoded', 'Content-Length': '0' };
    const headers = { ...form, 'SVC-API-KEY': 'key_ent' };
    expect((await app.send('/transactions/', { method: 'POST', headers })).status).toBe(201);
  });

  it('is never cached and has the headers of an answer without a body', async () => {
    await start();
    expect((await app.send('/tokens/abc')).headers['cache-control']).toBe('no-store');
    const gone = await app.send('/tokens/abc', { method: 'DELETE' });
    expect([gone.status, gone.text]).toEqual([403, expect.stringContaining('forbidden')]);
  });

  it('keeps text with a byte order mark out of the data', async () => {
    await start();
    const reply = await app.send('/tokens', post('\ufeff{"type":"token","data":"é"}'));
    expect(reply.body).toEqual({ type: 'token', data: 'é' });
  });
});

describe('the trace id', () => {
  it('is echoed when it is short and printable, and made otherwise', async () => {
    await start();
    const traced = await app.send('/tokens/abc', { headers: { 'SVC-TRACE-ID': 'my-trace' } });
    expect(traced.headers['svc-trace-id']).toBe('my-trace');
    const uuid = /^[0-9a-f-]{36}$/;
    expect((await app.send('/tokens/abc')).headers['svc-trace-id']).toMatch(uuid);
    const standard = [
      '11111111-1111-1111-1111-111111111111',
      `4111111111111111${'a'.repeat(16)}`,
      '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      '1732361234567-req',
      '2026-11-23T11:52:00.123Z',
    ];
    for (const id of standard) {
      const reply = await app.send('/tokens/abc', { headers: { 'SVC-TRACE-ID': id } });
      expect(reply.headers['svc-trace-id']).toBe(id);
    }
    const long = await app.send('/nowhere', { headers: { 'SVC-TRACE-ID': 'x'.repeat(129) } });
    expect(long.headers['svc-trace-id']).toMatch(uuid);
  });

  it.each([canary, `order-${canary}`, '4111-1111-1111-1111', '4111.1111/1111:1111', canary.repeat(2)])(
    'is made when it could hold a card number: %s',
    async (id) => {
      await start();
      await app.send('/transactions', { method: 'POST', headers: { 'SVC-TRACE-ID': id } });
      expect((await app.events())[0]?.metadata.trace_id).toMatch(/^[0-9a-f-]{36}$/);
    },
  );

  it('is in the events that the request recorded', async () => {
    await start();
    await app.send('/transactions', { method: 'POST', headers: { 'SVC-TRACE-ID': 'my-trace' } });
    expect((await app.events())[0]?.metadata.trace_id).toBe('my-trace');
  });
});

describe('reading your own writes', () => {
  const writing = { createToken: async () => ({ body: {}, position: '7' as Position }) };
  const newToken = (headers: Record<string, string> = {}) =>
    app.send('/tokens', post({ type: 'token', data: 1 }, { ...json, ...headers }));

  it('waits for the position of a write and returns it', async () => {
    const waited: string[] = [];
    await start({ handlers: writing, waitFor: async (position) => (waited.push(position), true) });
    const reply = await newToken();
    expect([reply.headers['svc-position'], reply.headers['svc-consistency']]).toEqual(['7', undefined]);
    expect(waited).toEqual(['7']);
  });

  it('does not wait after a write whose effect is in the log only', async () => {
    const react = async () => ({ body: {}, position: '7' as Position });
    const principal = principalWith({ permissions: ['token:use'] });
    const authentications = { [goodKey]: { kind: 'authenticated', principal, keyHash: 'good' } } as const;
    await start({ handlers: { react }, authentications, waitFor: () => new Promise(() => {}) });
    const reply = await app.send(`/reactors/${randomUUID()}/react`, post({ args: {} }));
    expect([reply.status, reply.headers['svc-position'], reply.headers['svc-consistency']]).toEqual([
      200,
      '7',
      undefined,
    ]);
  });

  it('says pending when the read models are late', async () => {
    await start({ handlers: writing, waitFor: async () => false });
    const reply = await newToken();
    expect([reply.status, reply.headers['svc-consistency']]).toEqual([201, 'pending']);
  });

  it('does not wait for a caller who prefers that', async () => {
    await start({ handlers: writing, waitFor: () => new Promise(() => {}) });
    const reply = await newToken({ Prefer: 'wait=5, respond-async' });
    expect([reply.status, reply.headers['svc-consistency']]).toEqual([201, 'pending']);
  });

  it('waits for the position that a query names: 503 when it is not reached, 400 when it is invalid', async () => {
    await start({ waitFor: async (position) => position === '7' });
    const at = (position: string) => app.send('/tokens/abc', { headers: { 'SVC-POSITION': position } });
    expect((await at('7')).status).toBe(200);
    const late = await at('8');
    expectProblem(late, 503);
    expect(late.headers['retry-after']).toBe('1');
    expectProblem(await at('soon'), 400);
  });

  it('does not use rows that were read while the connection was lost: found, not found, or the caller', async () => {
    let losses = 0;
    const progress: ProjectionProgress = {
      waitFor: async () => true,
      reach: async () => true,
      recovered: async () => true,
      get losses() {
        return losses;
      },
      read: async () => undefined,
      close: async () => {},
    };
    const lost = async () => {
      losses += 1;
      return { body: {} };
    };
    const notFound = async () => {
      losses += 1;
      throw new NotFoundError('token');
    };
    await start({
      handlers: { getToken: lost, listTokens: notFound, createToken: lost },
      dependencies: { progress },
    });
    expectProblem(await app.send('/tokens/abc'), 503);
    expectProblem(await app.send('/tokens'), 503);
    expect((await newToken()).status).toBe(201);
    const authenticator = {
      authenticate: async () => {
        losses += 1;
        return { kind: 'unknown' } as const;
      },
      authenticateConsole: async () => ({ kind: 'unknown' }) as const,
      forget: () => {},
    };
    await app.stop();
    await start({ dependencies: { progress, authenticator } });
    expectProblem(await newToken(), 503);
  });

  it('clears the cache of callers after a write that may change them', async () => {
    let forgotten = 0;
    const written = async () => ({ body: {}, position: '7' as Position });
    const handlers = { createApplication: written, react: written, ...writing };
    const principal = principalWith({ permissions: ['application:create', 'token:create', 'token:use'] });
    await start({
      handlers,
      onForget: () => (forgotten += 1),
      authentications: { [goodKey]: { kind: 'authenticated', principal, keyHash: 'good' } },
    });
    await newToken();
    expect((await app.send(`/reactors/${randomUUID()}/react`, post({ args: {} }))).status).toBe(200);
    expect(forgotten).toBe(0);
    await app.send('/applications', post({ name: 'a', type: 'private', permissions: ['token:read'] }));
    expect(forgotten).toBe(1);
  });
});

describe('an error', () => {
  const failing = (error: Error): Handlers => ({ getToken: () => Promise.reject(error) });

  it('that is unexpected shows the caller no details and the log neither message nor data', async () => {
    const error = Object.assign(new Error(`duplicate key (number)=(${canary})`), {
      detail: canary,
      code: '23505',
    });
    await start({ handlers: failing(error) });
    const reply = await app.send('/tokens/abc');
    expectProblem(reply, 500);
    expect(Object.keys(reply.body)).not.toContain('errors');
    const line = app.lines.find((each) => each.msg === 'request failed');
    expect(line).toMatchObject({ error_code: '23505', operation: 'getToken', status: 500 });
    expect(line?.trace_id).toBe(reply.headers['svc-trace-id']);
    expect(JSON.stringify(app.lines) + reply.text).not.toContain('4111');
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
    const reply = await app.send('/tokens/abc');
    expectProblem(reply, 503);
    expect(reply.headers['retry-after']).toBe('1');
  });

  it('in the answer is sent as one problem', async () => {
    await start({ handlers: { getToken: async () => ({ body: { big: 1n } }) } });
    expectProblem(await app.send('/tokens/abc'), 500);
    expectProblem(await app.send('/tokens/abc'), 500);
  });
});

describe('a client that disconnects', () => {
  it('in the middle of its body leaves no error in the log, and others are served', async () => {
    await start();
    const socket = connect(app.port, '127.0.0.1');
    socket.write(
      `POST /tokens HTTP/1.1\r\nHost: x\r\nSVC-API-KEY: ${goodKey}\r\nContent-Length: 1000\r\n\r\n{"type":`,
    );
    await expect.poll(async () => (await app.send('/tokens/abc')).status).toBe(200);
    socket.destroy();
    await expect.poll(() => app.lines.map((line) => line.msg)).toContain('request refused');
    expect(app.lines.filter((line) => Number(line.level) >= 40)).toEqual([]);
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
    const socket = connect(app.port, '127.0.0.1');
    socket.write(`GET /tokens/abc HTTP/1.1\r\nHost: x\r\nSVC-API-KEY: ${goodKey}\r\n\r\n`);
    await reached;
    socket.destroy();
    resolve();
    expect((await app.send('/tokens')).status).toBe(200);
    expect(app.lines.filter((line) => Number(line.level) >= 40)).toEqual([]);
  });
});
