import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { waitUntil } from '@token-vault/test-support';
import { describe, expect, it } from 'vitest';
import { nowhere } from '../world/proxies.ts';
import { passDecisionTime } from '../world/receivers.ts';
import { json, useProxies } from './configured-proxies.ts';

const proxies = useProxies();
const { vault, destination, number, cardText, newProxy, ofApplication, newKey, invoke, withKey, logOf } =
  proxies;
const { manager } = vault;
const newApplication = vault.makeApplication;

describe('a request through a configured proxy', () => {
  it('is sent to a path of its destination, with data; the log names the proxy', async () => {
    const id = await newProxy();
    const answer = await invoke(id, '/charges/a%20b?x=1', { text: cardText() });
    expect([answer.status, answer.text]).toEqual([200, '1']);
    const [arrived] = destination.arrived;
    expect([arrived?.url, arrived?.body.toString()]).toEqual([
      '/base/charges/a%20b?x=1',
      `{"n": "${number}"}`,
    ]);
    await waitUntil(async () => (await logOf(answer.trace)).length === 3, { what: 'the log' });
    expect((await logOf(answer.trace)).map(({ message, entity_id }) => [message, entity_id])).toEqual([
      [`Proxy invoked: POST ${destination.url}`, id],
      ['Token used', proxies.cardId],
      ['Proxy answered 200', id],
    ]);
  });

  it('is refused to a page that requests a script or a style', async () => {
    const id = await newProxy(ofApplication());
    const { key } = await newKey(id);
    for (const kind of ['script', 'style', 'worker', 'serviceworker']) {
      const headers = { 'Sec-Fetch-Dest': kind };
      const answer = await withKey(id, `/?svc-proxy-key=${key}`, { method: 'GET', headers });
      expect([kind, answer.status]).toEqual([kind, 403]);
    }
    expect(destination.arrived).toEqual([]);
    expect((await withKey(id, `/?svc-proxy-key=${key}`, { method: 'GET' })).status).toBe(200);
  });

  it.each(['text/javascript', 'Application/X-JavaScript; charset=utf-8', 'text/ecmascript', 'text/css'])(
    'gives %s as bytes without a type, because an old browser does not declare the purpose of a request',
    async (type) => {
      destination.answer = (_request, response) => response.setHeader('Content-Type', type).end('run()');
      const id = await newProxy();
      const got = await invoke(id, '', { method: 'GET' });
      expect(got.text).toBe('run()');
      const names = ['content-type', 'x-content-type-options', 'content-security-policy'];
      expect(names.map((name) => got.headers.get(name))).toEqual([
        'application/octet-stream',
        'nosniff',
        'sandbox',
      ]);
      expect((await invoke(id)).headers.get('content-type')).toBe(type);
    },
  );

  it('keeps other types', async () => {
    const type = 'application/json; charset=utf-8';
    destination.answer = (_request, response) => response.setHeader('Content-Type', type).end('{}');
    expect((await invoke(await newProxy(), '', { method: 'GET' })).headers.get('content-type')).toBe(type);
  });

  it.each([
    ['', '/base'],
    ['/', '/base/'],
    ['?a=b', '/base?a=b'],
    ['/a//b/', '/base/a//b/'],
  ])('below %s goes to %s', async (below, url) => {
    expect((await invoke(await newProxy(), below)).status).toBe(200);
    expect(destination.arrived.map((each) => each.url)).toEqual([url]);
  });

  it.each([
    '/../admin',
    '/%2e%2e/admin',
    '/a/..%2f..%2fadmin',
    '/..%5cadmin',
    '/%252e%252e/admin',
    '/%25%32%65%25%32%65/admin',
    '/..;/admin',
    '/{{ x }}',
    '/%7b%7b x }}',
    '/.',
  ])('never leaves the base path: %s', async (below) => {
    const id = await newProxy();
    const { port } = new URL(vault.process().url);
    // Clients resolve dots themselves.
    const sent = httpRequest({
      host: '127.0.0.1',
      port,
      path: `/proxies/${id}/invoke${below.replaceAll(' ', '%20')}`,
      headers: { 'SVC-API-KEY': proxies.backend.key },
    }).end();
    const [answer] = (await once(sent, 'response')) as [IncomingMessage];
    answer.resume();
    expect(answer.statusCode).toBe(400);
    expect(destination.arrived).toEqual([]);
  });

  it('has the rights of its caller, not those of the proxy', async () => {
    const caller = await newApplication({
      rules: [{ priority: 1, container: '/other/', transform: 'reveal', permissions: ['token:use'] }],
    });
    const by = manager.withKey(caller.key);
    const id = await newProxy(ofApplication());
    expect((await invoke(id, '', { by, text: cardText(), headers: json })).status).toBe(403);
    const mayNot = manager.withKey((await newApplication({ permissions: ['token:read'] })).key);
    expect((await invoke(id, '', { by: mayNot })).status).toBe(403);
    expect((await invoke(id, '', { by: manager })).status).toBe(403);
    expect(destination.arrived).toEqual([]);
  });

  it('has no token of an open transaction, also when it names the transaction', async () => {
    const { client } = proxies.backend;
    const { id } = (await client.expect<{ id: string }>(201, 'POST', '/transactions')).body;
    const headers = { 'SVC-TRANSACTION-ID': id };
    const body = { type: 'token', data: 'in a transaction' };
    const token = (await client.expect<{ id: string }>(201, 'POST', '/tokens', { headers, body })).body.id;
    const proxy = await newProxy();
    const send = () => invoke(proxy, '', { headers, body: [`{{ ${token} }}`] });
    expect((await send()).status).toBe(400);
    await client.expect(200, 'POST', `/transactions/${id}/commit`);
    expect((await send()).status).toBe(200);
    expect(destination.arrived.map((each) => each.body.toString())).toEqual(['["in a transaction"]']);
    expect(Object.keys(destination.arrived[0]?.headers ?? {})).not.toContain('svc-transaction-id');
  });

  it('is refused where the tenant allows no such destination', async () => {
    const id = await newProxy({ destination: 'https://127.0.0.2' });
    expect(await invoke(id)).toMatchObject({
      status: 403,
      body: { errors: { destination: [expect.anything()] } },
    });
  });
});

describe('an application with destinations of its own', () => {
  it('reaches no others, by its key, by that of a proxy of its own, and by code; the refusal is recorded', async () => {
    const open = `${destination.url} ${nowhere}`;
    const bound = await newApplication({ permissions: ['token:use'] });
    const code = `module.exports = async () => {
      await fetch('${destination.url}/by-code').catch(() => undefined);
      return { raw: {} };
    };`;
    const ofProxy = { application: { id: bound.id } };
    const [to, elsewhere] = [
      await newProxy(ofProxy),
      await newProxy({
        ...ofProxy,
        destination: nowhere,
        destinations: [destination.url],
        request: { code },
      }),
    ];
    const { key } = await newKey(to);
    const trace = 'refused-by-own-list';
    const headers = { 'SVC-PROXY-URL': destination.url, 'SVC-TRACE-ID': trace };
    const all = async () => {
      const byUrl = await bound.client.request('POST', '/proxy', { headers });
      const others = [await invoke(to, '', { by: bound.client }), await withKey(to, `?svc-proxy-key=${key}`)];
      const through = [await invoke(to), await invoke(elsewhere)];
      const arrived = destination.arrived.splice(0).map(({ url }) => url);
      return [[byUrl, ...others, ...through].map(({ status }) => status), arrived];
    };
    const own = `proxy_destinations.${bound.id}`;
    const everything = [
      [200, 200, 200, 200, 502],
      ['/', '/base', '/base', '/base', '/by-code'],
    ];
    expect(await all()).toEqual(everything);
    await vault.setTenant({ proxy_destinations: open, [own]: nowhere });
    try {
      expect(await all()).toEqual([[403, 403, 403, 403, 502], []]);
      expect((await logOf(trace)).map(({ message }) => message)).toContain('Proxy access denied');
      const { backend } = proxies;
      expect((await backend.client.request('POST', '/proxy', { headers })).status).toBe(200);
    } finally {
      await vault.setTenant({ proxy_destinations: open });
    }
    destination.arrived.length = 0;
    expect(await all()).toEqual(everything);
  });
});

describe('a proxy that changes while a request is under way', () => {
  it.each<[string, (id: string, applicationId: string) => Promise<unknown>, number]>([
    ['is deleted', (id) => manager.expect(204, 'DELETE', `/proxies/${id}`), 401],
    ['loses its application', (_id, of) => manager.expect(204, 'DELETE', `/applications/${of}`), 401],
    [
      'gets another destination',
      (id) =>
        manager.expect(204, 'PATCH', `/proxies/${id}`, {
          body: { destination: `${destination.url}/new` },
        }),
      409,
    ],
  ])('%s: the answer is withheld', async (_what, change, status) => {
    const own = await newApplication({ permissions: ['token:use'] });
    const id = await newProxy({ application: { id: own.id } });
    const { key } = await newKey(id);
    let reply: () => void = () => undefined;
    const isThere = new Promise<void>((resolve) => {
      destination.answer = (_request, response) => {
        reply = () => void response.end('secret');
        resolve();
      };
    });
    const answer = withKey(id, `?svc-proxy-key=${key}`, { text: cardText(), headers: json });
    await isThere;
    const sinceMs = performance.now();
    await change(id, own.id);
    await passDecisionTime(sinceMs);
    reply();
    expect(await answer).toMatchObject({ status });
    expect((await answer).text).not.toContain('secret');
  });
});
