import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { goodKey, principalWith, send, tenantId } from './tiny-app.ts';
import { canary, expectProblem, json, post, useEdge } from './edge.ts';

const edge = useEdge();
const { start } = edge;

describe('a request that is not valid', () => {
  it('gets the dotted path of every field at fault, never a value', async () => {
    await start();
    const body = { type: canary, data: 1, metadata: { color: 4111 }, containers: [canary], expires_at: true };
    const reply = await edge.app.send('/tokens', post(body));
    expectProblem(reply, 400);
    expect(reply.body.title).toBe('One or more validation errors occurred.');
    const errors = reply.body.errors as Record<string, string[]>;
    expect(Object.keys(errors).sort()).toEqual(['containers.0', 'expires_at', 'metadata.color', 'type']);
    expect(reply.text).not.toContain('4111');
  });

  it('is answered even when a field has the name of something every object has', async () => {
    await start();
    const errorsOf = async (metadata: string) => {
      const reply = await edge.app.send('/tokens', post(`{"type":"token","data":1,"metadata":${metadata}}`));
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
    const reply = await edge.app.send('/tokens', post(body));
    expectProblem(reply, status);
    expect(reply.text).not.toContain('4111');
    expect(JSON.stringify(edge.app.lines)).not.toContain('4111');
  });

  it('of unknown length is cut at 1 MiB', async () => {
    await start();
    const headers = { ...json, 'Transfer-Encoding': 'chunked' };
    expectProblem(await edge.app.send('/tokens', post('9'.repeat(1024 * 1024 + 1), headers)), 413);
    const fits = await edge.app.send('/tokens', post('{"type":"token","data":"x"}', headers));
    expect(fits.status).toBe(201);
  });

  it('must not be compressed', async () => {
    await start();
    expectProblem(await edge.app.send('/tokens', post('x', { ...json, 'Content-Encoding': 'gzip' })), 415);
  });

  it('of PATCH must say that it is a merge patch', async () => {
    await start();
    const patch = (type: string) =>
      edge.app.send('/tokens/abc', { method: 'PATCH', headers: { 'Content-Type': type }, body: {} });
    expectProblem(await patch('application/json'), 415);
    expectProblem(await edge.app.send('/tokens/abc', { method: 'PATCH', body: {} }), 415);
    expect((await patch('Application/Merge-Patch+JSON; charset=utf-8')).status).toBe(200);
  });

  it('with a path that cannot be decoded gets 400', async () => {
    await start();
    const reply = await edge.app.send('/tokens/%E0%A4%A');
    expectProblem(reply, 400);
    expect(reply.body.errors).toEqual({ path: ['is not valid percent-encoding'] });
  });

  it('to an unknown path is 404; with an unknown method it is 405 and names the allowed methods', async () => {
    await start();
    expectProblem(await edge.app.send('/nowhere'), 404);
    const reply = await edge.app.send('/tokens/abc', { method: 'PUT' });
    expectProblem(reply, 405);
    expect(reply.headers.allow).toBe('GET, PATCH, DELETE');
  });

  it('to a path that no id can be mistaken for gets 405 for its other methods; where one can, it is an id', async () => {
    await start();
    const refused = await edge.app.send('/applications/key', { method: 'PUT' });
    expectProblem(refused, 405);
    expect(refused.headers.allow).toBe('GET');
    expect((await edge.app.send('/tokens/search', { method: 'PUT' })).headers.allow).toBe(
      'POST, GET, PATCH, DELETE',
    );
    expect((await edge.app.send('/tokens/search')).status).not.toBe(405);
  });

  it('that is not HTTP gets a problem too', async () => {
    await start();
    const socket = connect(edge.app.port, '127.0.0.1');
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
    expect((await edge.app.send('/tokens/abc/')).body).toEqual({ id: 'abc' });
    expect(
      (await send(edge.app.port, '/tokens/a%20b', { headers: { 'svc-api-KEY': goodKey } })).body,
    ).toEqual({
      id: 'a b',
    });
    const form = { 'Content-Type': 'application/x-www-form-urlencoded', 'Content-Length': '0' };
    const headers = { ...form, 'SVC-API-KEY': 'key_ent' };
    expect((await edge.app.send('/transactions/', { method: 'POST', headers })).status).toBe(201);
  });

  it('is never cached and has the headers of an answer without a body', async () => {
    await start();
    expect((await edge.app.send('/tokens/abc')).headers['cache-control']).toBe('no-store');
    const gone = await edge.app.send('/tokens/abc', { method: 'DELETE' });
    expect([gone.status, gone.text]).toEqual([403, expect.stringContaining('forbidden')]);
  });

  it('keeps text with a byte order mark out of the data', async () => {
    await start();
    const reply = await edge.app.send('/tokens', post('\ufeff{"type":"token","data":"é"}'));
    expect(reply.body).toEqual({ type: 'token', data: 'é' });
  });
});

describe('the trace id', () => {
  it('is echoed when it is short and printable, and made otherwise', async () => {
    await start();
    const traced = await edge.app.send('/tokens/abc', { headers: { 'SVC-TRACE-ID': 'my-trace' } });
    expect(traced.headers['svc-trace-id']).toBe('my-trace');
    const uuid = /^[0-9a-f-]{36}$/;
    expect((await edge.app.send('/tokens/abc')).headers['svc-trace-id']).toMatch(uuid);
    const standard = [
      '11111111-1111-1111-1111-111111111111',
      `4111111111111111${'a'.repeat(16)}`,
      '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      '1732361234567-req',
      '2026-11-23T11:52:00.123Z',
    ];
    for (const id of standard) {
      const reply = await edge.app.send('/tokens/abc', { headers: { 'SVC-TRACE-ID': id } });
      expect(reply.headers['svc-trace-id']).toBe(id);
    }
    const long = await edge.app.send('/nowhere', { headers: { 'SVC-TRACE-ID': 'x'.repeat(129) } });
    expect(long.headers['svc-trace-id']).toMatch(uuid);
  });

  it.each([canary, `order-${canary}`, '4111-1111-1111-1111', '4111.1111/1111:1111', canary.repeat(2)])(
    'is made when it could hold a card number: %s',
    async (id) => {
      await start();
      await edge.app.send('/transactions', { method: 'POST', headers: { 'SVC-TRACE-ID': id } });
      expect((await edge.app.events())[0]?.metadata.trace_id).toMatch(/^[0-9a-f-]{36}$/);
    },
  );

  it('is in the events that the request recorded', async () => {
    await start();
    await edge.app.send('/transactions', { method: 'POST', headers: { 'SVC-TRACE-ID': 'my-trace' } });
    expect((await edge.app.events())[0]?.metadata.trace_id).toBe('my-trace');
  });
});
