import { methodsOf, operations, type Operation } from '@token-vault/contracts';
import { rawBodyLimitBytes } from '@token-vault/http';
import { once } from 'node:events';
import { readdirSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { bodyLimitBytes } from './files.ts';
import {
  nginxBinary,
  problemOf,
  send,
  sendRaw,
  startFakeService,
  startGateway,
  type FakeService,
  type Gateway,
} from './running-gateway.ts';

const table = Object.entries(operations as Readonly<Record<string, Operation>>);
const exampleOf = (template: string) =>
  template.replaceAll(/\{\w+\}/g, '0f0e5bb2-5e0b-44c1-8f39-3b9d6a1c6b0e');

describe.skipIf(nginxBinary === undefined)(
  'the gateway, with a real nginx (skipped where none is installed)',
  () => {
    let command: [FakeService, FakeService];
    let query: [FakeService, FakeService];
    let proxy: [FakeService, FakeService];
    let gateway: Gateway;
    const all = () => [...command, ...query, ...proxy];
    const seen = () => all().flatMap((service) => service.seen);
    const call = (method: string, to: string, options: Parameters<typeof send>[3] = {}) =>
      send(gateway.port, method, to, options);

    beforeAll(async () => {
      command = [await startFakeService('command'), await startFakeService('command')];
      query = [await startFakeService('query'), await startFakeService('query')];
      proxy = [await startFakeService('proxy'), await startFakeService('proxy')];
      const addresses = (services: FakeService[]) => services.map(({ port }) => `127.0.0.1:${port}`);
      gateway = await startGateway({
        commandServers: addresses(command),
        queryServers: addresses(query),
        proxyServers: addresses(proxy),
      });
    });
    afterAll(async () => {
      await gateway?.stop();
      for (const service of all()) await service.close();
    });
    beforeEach(() => {
      for (const service of all()) {
        service.behaviour = 'answer';
        service.headers = {};
        service.seen.length = 0;
      }
    });

    it.each(table)(
      'forwards %s to its service unchanged, also with a slash at the end',
      async (id, operation) => {
        const to = exampleOf(operation.path);
        const before = gateway.accessLog().length;
        const [method = ''] = methodsOf(operation);
        for (const sent of [`${to}?page=1&q=%20a`, `${to}/`]) {
          const answer = await call(method, sent);
          expect(answer.status).toBe(200);
          expect(problemOf(answer)).toEqual({ service: operation.service, url: sent });
          expect(answer.headers).not.toHaveProperty('x-powered-by');
        }
        await vi.waitUntil(() => gateway.accessLog().length >= before + 2);
        expect(gateway.accessLog().at(-1)).toMatchObject({
          operation: id,
          status: 200,
          method,
        });
      },
    );

    it('answers 405 with all methods of the path, whichever service has them, and 404 for other paths', async () => {
      const refused = await call('PUT', '/tokens?metadata.a=b');
      expect(refused.status).toBe(405);
      expect(refused.headers.allow).toBe('POST, DELETE, GET');
      expect(refused.headers['content-type']).toBe('application/problem+json');
      expect(problemOf(refused)).toEqual({
        type: 'urn:token-vault:problem:method-not-allowed',
        title: 'Method Not Allowed',
        status: 405,
        detail: 'Allowed here: POST, DELETE, GET.',
        instance: '/tokens',
        trace_id: refused.headers['svc-trace-id'],
      });
      expect((await call('OPTIONS', '/tokenize')).status).toBe(405);
      const unknown = await call('GET', '/nowhere"\\', { headers: { 'SVC-TRACE-ID': 'my-trace' } });
      expect(unknown.status).toBe(404);
      expect(problemOf(unknown)).toMatchObject({ instance: '/', trace_id: 'my-trace' });
      expect(unknown.headers['svc-trace-id']).toBe('my-trace');
      expect(seen()).toEqual([]);
    });

    it.each([
      '/metrics',
      '/METRICS/',
      '/metrics?x=/tokens',
      '/health/ready',
      '/status',
      '//metrics',
      '/tokens/../metrics',
      '/tokens/..%2fmetrics/x',
      '/%6detrics',
      '/tokens//metrics',
    ])('does not pass requests on to %s', async (hidden) => {
      expect((await call('GET', hidden)).status).toBe(404);
      expect(seen()).toEqual([]);
    });

    it('forwards ids as they were written, and the service decides about them', async () => {
      for (const id of ['a%2Fb', '%2e%2e', 'caf%C3%A9', 'x:y;z', '%ff'])
        expect(problemOf(await call('GET', `/tokens/${id}`))).toEqual({
          service: 'query',
          url: `/tokens/${id}`,
        });
    });

    it('refuses paths that nginx itself cannot decode or that lead above the root', async () => {
      for (const id of ['%zz', '%00', '..%2f..%2fmetrics']) {
        const answer = await call('GET', `/tokens/${id}`);
        expect([answer.status, problemOf(answer).type]).toEqual([
          400,
          'urn:token-vault:problem:validation-failed',
        ]);
      }
      expect(seen()).toEqual([]);
    });

    it('forwards only headers that a service reads, and sets those about the client itself', async () => {
      await call('POST', '/tokens', {
        body: '{}',
        headers: {
          'Content-Type': 'application/json',
          'SVC-API-KEY': 'key_pvt_1',
          'SVC-IDEMPOTENCY-KEY': 'i-1',
          'SVC-TRANSACTION-ID': 't-1',
          'SVC-POSITION': '12',
          Prefer: 'respond-async',
          'SVC-CONSOLE-SESSION': 's',
          'X-Forwarded-For': '9.9.9.9',
          'X-Forwarded-Host': 'evil',
          'X-Real-IP': '9.9.9.9',
          Forwarded: 'for=9.9.9.9',
          'X-Internal': 'yes',
          'SVC-INTERNAL': 'yes',
          traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
          Cookie: 'a=b; __Host-vault-console=s.1; c=d',
          Origin: 'https://vault.example',
          TE: 'trailers',
          Connection: 'keep-alive, SVC-API-KEY',
          'Proxy-Authorization': 'x',
        },
      });
      const headers = seen()[0]?.headers ?? {};
      expect(headers).toEqual({
        host: '127.0.0.1',
        'content-length': '2',
        'content-type': 'application/json',
        'svc-api-key': 'key_pvt_1',
        'svc-idempotency-key': 'i-1',
        'svc-transaction-id': 't-1',
        'svc-position': '12',
        prefer: 'respond-async',
        'svc-console-session': 's',
        origin: 'https://vault.example',
        cookie: '__Host-vault-console=s.1',
        'x-forwarded-host': expect.stringMatching(/^127\.0\.0\.1:\d+$/) as string,
        'svc-trace-id': expect.stringMatching(/^[0-9a-f]{32}$/) as string,
        'x-forwarded-for': '127.0.0.1',
        'x-forwarded-proto': 'http',
      });
    });

    it('passes on a trace id that is acceptable, and makes one otherwise', async () => {
      await call('GET', '/tokens', { headers: { 'SVC-TRACE-ID': 'a"b\\c' } });
      await call('GET', '/tokens', { headers: { 'SVC-TRACE-ID': 'x'.repeat(129) } });
      const ids = seen().map(({ headers }) => headers['svc-trace-id']);
      // Both are found, whichever service they were sent to.
      expect(ids).toContain('a"b\\c');
      expect(ids).toContainEqual(expect.stringMatching(/^[0-9a-f]{32}$/));
      const own = await call('GET', '/nowhere', { headers: { 'SVC-TRACE-ID': 'a"b\\c' } });
      expect(problemOf(own).trace_id).toBe(own.headers['svc-trace-id']);
    });

    it('takes bodies up to the limit of the services, whole and never through a file', async () => {
      const largest = 'x'.repeat(bodyLimitBytes);
      expect((await call('POST', '/tokens', { body: largest })).status).toBe(200);
      const chunked = await call('POST', '/tokens', {
        body: largest,
        headers: { 'Transfer-Encoding': 'chunked' },
      });
      expect(chunked.status).toBe(200);
      expect(seen().map(({ body }) => body.length)).toEqual([bodyLimitBytes, bodyLimitBytes]);
      const tooLarge = await call('POST', '/tokens', {
        body: `${largest}x`,
        headers: { Expect: '100-continue' },
      });
      expect(tooLarge.status).toBe(413);
      expect(problemOf(tooLarge)).toMatchObject({
        type: 'urn:token-vault:problem:payload-too-large',
        status: 413,
      });
      // nginx deletes such files after use; the modification time of the directory still shows them.
      const written = readdirSync(gateway.directory)
        .map((name) => path.join(gateway.directory, name))
        .filter((file) => statSync(file).isDirectory())
        .flatMap((directory) => readdirSync(directory));
      expect(written).toEqual([]);
    });

    it('takes 16 MiB for another server, and no more', async () => {
      const largest = 'x'.repeat(rawBodyLimitBytes);
      const to = '/proxies/0f0e5bb2-5e0b-44c1-8f39-3b9d6a1c6b0e/invoke/v1';
      for (const path of ['/proxy', to])
        expect((await call('POST', path, { body: largest })).status).toBe(200);
      expect(seen().map(({ body }) => body.length)).toEqual([rawBodyLimitBytes, rawBodyLimitBytes]);
      const headers = { Expect: '100-continue' };
      const tooLarge = await call('POST', '/proxy', { body: `${largest}x`, headers });
      expect([tooLarge.status, seen().length]).toEqual([413, 2]);
    });

    it('answers malformed HTTP and too large requests with problems too', async () => {
      const malformed = await sendRaw(gateway.port, 'GET /tokens HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n');
      expect(malformed).toMatch(/^HTTP\/1\.1 400 /);
      expect(malformed).toContain('"type":"urn:token-vault:problem:validation-failed"');
      expect(malformed).not.toContain('<html');
      const fat = await call('GET', '/tokens', { headers: { 'SVC-API-KEY': 'x'.repeat(20_000) } });
      expect([fat.status, problemOf(fat).status]).toEqual([431, 431]);
      const long = await call('GET', `/tokens?${'x'.repeat(20_000)}`);
      expect([long.status, problemOf(long).status]).toEqual([414, 414]);
      expect(seen()).toEqual([]);
    });

    it('refuses a request without a key before it has read its body', async () => {
      const socket = connect(gateway.port, '127.0.0.1');
      socket.write('POST /tokens HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{');
      const [refused] = (await once(socket.setEncoding('utf8'), 'data')) as [string];
      socket.destroy();
      expect(refused).toMatch(/^HTTP\/1\.1 401 [^]*"type":"urn:token-vault:problem:unauthenticated"/);
      expect(seen()).toEqual([]);
      // The document of the interface needs no key.
      expect((await call('GET', '/openapi.json', { headers: { 'SVC-API-KEY': '' } })).status).toBe(200);
    });

    it.each([
      [501, 'POST /tokens HTTP/1.1\r\nHost: a\r\nSVC-API-KEY: k\r\nTransfer-Encoding: gzip\r\n\r\n'],
      [505, 'GET /tokens HTTP/3.0\r\nHost: a\r\n\r\n'],
    ])('answers %i as a problem with a trace id', async (status, bytes) => {
      const refused = await sendRaw(gateway.port, bytes);
      expect(refused).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
      expect(refused).toContain(`"status":${status}`);
      expect(refused).toMatch(/SVC-TRACE-ID: [0-9a-f]{32}/);
      expect(refused).not.toContain('<html');
    });

    it('passes on the problems that a service answers, and asks no other server', async () => {
      for (const service of all()) service.behaviour = 'problem';
      for (const [method, to] of [
        ['GET', '/tokens'],
        ['POST', '/tokens'],
      ] as const) {
        const answer = await call(method, to);
        expect([answer.status, answer.headers['retry-after'], answer.body]).toEqual([
          503,
          '7',
          '{"own":"problem"}',
        ]);
      }
      expect(seen()).toHaveLength(2);
    });

    it.each([
      ['GET', '/tokens/abc', 'query'],
      ['POST', '/tokens', 'command'],
      ['DELETE', '/tokens/abc', 'command'],
      ['POST', '/proxy', 'proxy'],
    ])(
      'takes no orders from the headers of an answer to %s %s, and does not show them',
      async (method, to, name) => {
        for (const target of ['/tokens/other', '@command', '/.problem/internal']) {
          for (const service of all()) {
            service.seen.length = 0;
            service.headers = {
              'X-Accel-Redirect': target,
              // One byte a second.
              'X-Accel-Limit-Rate': '1',
              'X-Accel-Expires': '3600',
              'X-Accel-Buffering': 'no',
              'X-Accel-Charset': 'utf-7',
            };
          }
          const answer = await call(method, to, { body: '{}' });
          expect([answer.status, problemOf(answer)]).toEqual([200, { service: name, url: to }]);
          expect(Object.keys(answer.headers).filter((header) => header.startsWith('x-accel'))).toEqual([]);
          expect(seen()).toHaveLength(1);
        }
      },
    );

    it('sends a read that was cut off to one other server, and answers 503 when that fails as well', async () => {
      for (const service of query) service.behaviour = 'cut';
      const answer = await call('GET', '/tokens/abc');
      expect([answer.status, answer.headers['retry-after']]).toEqual([503, '1']);
      expect(problemOf(answer)).toMatchObject({
        type: 'urn:token-vault:problem:unavailable',
        instance: '/tokens/abc',
      });
      expect(seen()).toHaveLength(2);
    });

    it.each([
      ['POST', '/tokens'],
      ['POST', '/reactors/0f0e5bb2-5e0b-44c1-8f39-3b9d6a1c6b0e/react'],
      ['PATCH', '/tokens/abc'],
      ['PUT', '/tenants/self'],
      ['DELETE', '/tokens/abc'],
    ])('never sends a %s to %s twice, and answers that its outcome is unknown', async (method, to) => {
      for (const service of command) service.behaviour = 'cut';
      const answer = await call(method, to, { body: '{}' });
      expect(seen()).toHaveLength(1);
      expect([answer.status, answer.headers['retry-after']]).toEqual([502, '1']);
      expect(problemOf(answer)).toMatchObject({
        type: 'urn:token-vault:problem:outcome-unknown',
        status: 502,
      });
    });

    it('never sends a search twice', async () => {
      for (const service of query) service.behaviour = 'cut';
      expect((await call('POST', '/tokens/search', { body: '{}' })).status).toBe(503);
      expect(seen()).toHaveLength(1);
    });

    it('writes neither paths nor queries, headers or bodies to its logs', async () => {
      const canary = '4242424242424242';
      for (const behaviour of ['answer', 'cut'] as const) {
        for (const service of all()) service.behaviour = behaviour;
        await call('POST', '/tokens/search', { body: `{"query":"data:${canary}"}` });
        await call('GET', `/tokens?metadata.card=${canary}`, {
          headers: { 'User-Agent': canary, Referer: canary },
        });
        await call('GET', `/tokens/${canary}`, { headers: { 'SVC-API-KEY': canary } });
        await call('GET', `/${canary}`);
      }
      const before = gateway.accessLog().length;
      await call('GET', '/permissions');
      await vi.waitUntil(() => gateway.accessLog().length > before);
      expect(gateway.files()).not.toContain(canary);
    });

    it('shows its own state only on its internal port', async () => {
      expect((await send(gateway.internalPort, 'GET', '/health/live')).body).toBe('{"status":"live"}');
      expect((await send(gateway.internalPort, 'GET', '/status')).body).toContain('Active connections');
      expect((await send(gateway.internalPort, 'GET', '/tokens')).status).toBe(404);
    });
  },
);
