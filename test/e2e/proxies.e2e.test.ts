import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import type { Application, ApplicationKey, LogEntry, Proxy, Token } from '@token-vault/contracts';
import {
  cardNumber,
  cardToken,
  type Client,
  createDataDirectory,
  removeDataDirectory,
  type RequestOptions,
  type StandaloneProcess,
  startStandaloneProcess,
  waitUntil,
} from '@token-vault/test-support';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startDestination, type Destination } from './destination.ts';

interface Problem {
  readonly type: string;
  readonly detail: string;
  readonly errors?: Readonly<Record<string, readonly string[]>>;
}

const number = cardNumber();
const json = { 'Content-Type': 'application/json' };
let dataDir: string;
let vault: StandaloneProcess;
let manager: Client;
let backend: Client;
let backendKey: string;
let destination: Destination;
let usual: Destination['answer'];
let card: Token;
/** May use cards, and make tokens of them. */
let application: Application;
let traces = 0;

async function newApplication(body: object): Promise<Application & { readonly key: string }> {
  const given = { name: 'caller', type: 'private', ...body };
  const made = (await manager.expect<Application>(201, 'POST', '/applications', { body: given })).body;
  return { ...made, key: made.key ?? '' };
}
async function newProxy(body: object = {}): Promise<string> {
  const given = { name: 'p', destination: `${destination.url}/base`, ...body };
  return (await manager.expect<Proxy>(201, 'POST', '/proxies', { body: given })).body.id;
}
const ofApplication = () => ({ application: { id: application.id } });
const newKey = async (id: string, body: object = {}): Promise<ApplicationKey & { key: string }> => {
  const made = (await manager.expect<ApplicationKey>(201, 'POST', `/proxies/${id}/keys`, { body })).body;
  return { ...made, key: made.key ?? '' };
};

type Sent = RequestOptions & { readonly by?: Client; readonly method?: string };
/** By a request of its own trace, so that the log can be asked about it. */
async function invoke(
  id: string,
  below = '',
  { by = backend, method = 'POST', headers, ...rest }: Sent = {},
) {
  const trace = `configured-${(traces += 1)}`;
  const answer = await by.request<Problem>(method, `/proxies/${id}/invoke${below}`, {
    ...rest,
    headers: { 'SVC-TRACE-ID': trace, ...headers },
  });
  return { ...answer, trace };
}
/** Without a key of a caller. */
const withKey = async (id: string, below: string, sent: Sent = {}) =>
  invoke(id, below, { key: null, ...sent });

async function logOf(trace: string): Promise<readonly LogEntry[]> {
  const { body } = await manager.expect<{ data: LogEntry[] }>(200, 'GET', `/logs?trace_id=${trace}&size=100`);
  return body.data.toReversed();
}

beforeAll(async () => {
  destination = await startDestination();
  usual = destination.answer;
  dataDir = await createDataDirectory();
  const env = {
    VAULT_EGRESS_ALLOW: '127.0.0.1/32',
    NODE_EXTRA_CA_CERTS: destination.caFile,
    VAULT_LOG_LEVEL: 'debug',
  };
  vault = await startStandaloneProcess({ dataDir, env });
  manager = vault.client();
  const settings = { proxy_destinations: `${destination.url} https://127.0.0.1:1` };
  await manager.expect(200, 'PUT', '/tenants/self', { body: { name: 'tenant', settings } });
  const permissions = ['token:create', 'token:read', 'token:use', 'token:delete'];
  backendKey = (await newApplication({ permissions })).key;
  backend = manager.withKey(backendKey);
  application = await newApplication({ permissions: ['token:use', 'token:create'] });
  card = (await backend.expect<Token>(201, 'POST', '/tokens', { body: cardToken(number) })).body;
});
afterAll(async () => {
  await vault.stop();
  await destination.close();
  await removeDataDirectory(dataDir);
});
beforeEach(() => {
  destination.arrived.length = 0;
  destination.answer = usual;
});

const cardText = () => `{"n": "{{ ${card.id} | json: '$.number' }}"}`;

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
      ['Token used', card.id],
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
    const { port } = new URL(vault.url);
    // Clients resolve dots themselves.
    const sent = httpRequest({
      host: '127.0.0.1',
      port,
      path: `/proxies/${id}/invoke${below.replaceAll(' ', '%20')}`,
      headers: { 'SVC-API-KEY': backendKey },
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

  it('is refused where the tenant allows no such destination', async () => {
    const id = await newProxy({ destination: 'https://127.0.0.2' });
    expect(await invoke(id)).toMatchObject({
      status: 403,
      body: { errors: { destination: [expect.anything()] } },
    });
  });
});

describe('a key of a proxy', () => {
  it('gives access to its proxy by the rights of its application, and is stored nowhere', async () => {
    const id = await newProxy(ofApplication());
    const { key, id: keyId } = await newKey(id);
    const answer = await withKey(id, `/c?a=1&svc-proxy-key=${key}&b=2`, { text: cardText(), headers: json });
    expect(answer.status).toBe(200);
    const escaped = key.replaceAll('_', '%5F');
    expect((await withKey(id, `/c?Svc%2DProxy-Key=${escaped}`)).status).toBe(200);
    expect(destination.arrived.map(({ url }) => url)).toEqual(['/base/c?a=1&b=2', '/base/c']);
    expect(destination.arrived[0]?.body.toString()).toContain(number);
    await waitUntil(async () => (await logOf(answer.trace)).length === 3, { what: 'the log' });
    const [invoked, ...others] = await logOf(answer.trace);
    expect(invoked).toMatchObject({
      message: `Proxy invoked: POST ${destination.url}, by key ${keyId}`,
      actor_id: application.id,
    });
    const shown = await manager.expect<Proxy>(200, 'GET', `/proxies/${id}`);
    expect(shown.body.keys).toMatchObject([{ id: keyId }]);
    const everything = JSON.stringify([destination.arrived, invoked, others, shown.body]) + vault.output();
    expect(everything).not.toContain(key);
    expect(everything).not.toContain(escaped);
  });

  it('has the hour of its last use, like the key of an application', async () => {
    const caller = await newApplication({ permissions: ['token:use'] });
    const id = await newProxy(ofApplication());
    const [used, unused] = [await newKey(id), await newKey(id)];
    expect((await invoke(id, '', { by: manager.withKey(caller.key) })).status).toBe(200);
    expect((await withKey(id, `?svc-proxy-key=${used.key}`)).status).toBe(200);
    const hour = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:00:00\.000Z$/) as string;
    const created_at = expect.any(String) as string;
    await waitUntil(
      async () => {
        const { keys } = (await manager.expect<Proxy>(200, 'GET', `/proxies/${id}`)).body;
        return keys.some(({ last_used_at: at }) => at !== undefined);
      },
      { what: 'the last use' },
    );
    expect((await manager.expect<Proxy>(200, 'GET', `/proxies/${id}`)).body.keys).toEqual([
      { id: used.id, created_at, last_used_at: hour },
      { id: unused.id, created_at },
    ]);
    const listed = await manager.expect<ApplicationKey[]>(200, 'GET', `/applications/${caller.id}/keys`);
    expect(listed.body).toEqual([{ id: caller.id, created_at, last_used_at: hour }]);
  });

  it('gives access to its proxy only, and no other key of a proxy does', async () => {
    const [id, other] = [await newProxy(ofApplication()), await newProxy(ofApplication())];
    const [{ key }, { key: otherKey }] = [await newKey(id), await newKey(other)];
    const refused = [
      withKey(id, ''),
      withKey(id, `?svc-proxy-key=${otherKey}`),
      withKey(id, '?svc-proxy-key='),
      withKey(id, `?svc-proxy-key=${key}&svc-proxy-key=${key}`),
      withKey(id, `?svc-proxy-key=${application.key ?? ''}`),
      withKey(id, `?svc-api-key=${application.key ?? ''}`),
      invoke(id, '', { by: manager.withKey(key) }),
      invoke(id, `?svc-proxy-key=${key}`, { by: manager.withKey('key_pvt_unknown00') }),
      manager.request('GET', `/tokens?svc-proxy-key=${key}`, { key: null }),
      manager.request('POST', `/proxy?svc-proxy-key=${key}`, {
        key: null,
        headers: { 'SVC-PROXY-URL': destination.url },
      }),
      withKey('00000000-0000-4000-8000-000000000000', `?svc-proxy-key=${key}`),
    ];
    expect((await Promise.all(refused)).map(({ status }) => status)).toEqual(refused.map(() => 401));
    expect(destination.arrived).toEqual([]);
    expect((await withKey(id, `?svc-proxy-key=${key}`)).status).toBe(200);
  });

  it('ends at once when it is deleted, expires, or its proxy or application is deleted', async () => {
    const own = await newApplication({ permissions: ['token:use'] });
    const id = await newProxy({ application: { id: own.id } });
    const [first, second] = [await newKey(id), await newKey(id)];
    const third = await newKey(id, { expires_at: new Date(Date.now() + 1_500).toISOString() });
    const use = async ({ key }: { key: string }) => (await withKey(id, `?svc-proxy-key=${key}`)).status;
    expect([await use(first), await use(second), await use(third)]).toEqual([200, 200, 200]);
    await manager.expect(204, 'DELETE', `/proxies/${id}/keys/${first.id}`);
    expect([await use(first), await use(second)]).toEqual([401, 200]);
    await waitUntil(async () => (await use(third)) === 401, { what: 'the end of the key' });
    await manager.expect(204, 'DELETE', `/applications/${own.id}`);
    expect(await use(second)).toBe(401);
    const { body } = await manager.expect<{ data: LogEntry[] }>(
      200,
      'GET',
      `/logs?actor_id=${own.id}&operation=authenticate`,
    );
    expect(body.data.length).toBeGreaterThan(1);
    const gone = await newProxy(ofApplication());
    const { key } = await newKey(gone);
    await manager.expect(204, 'DELETE', `/proxies/${gone}`);
    expect((await withKey(gone, `?svc-proxy-key=${key}`)).status).toBe(401);
    expect((await invoke(gone)).status).toBe(404);
  });

  it('is not needed where the proxy needs none; a wrong one is refused even so', async () => {
    const id = await newProxy({ ...ofApplication(), require_auth: false });
    expect((await withKey(id, '/c', { text: cardText(), headers: json })).status).toBe(200);
    expect(destination.arrived[0]?.body.toString()).toContain(number);
    expect((await withKey(id, '?svc-proxy-key=key_prx_unknown')).status).toBe(401);
    await manager.expect(204, 'PATCH', `/proxies/${id}`, {
      body: { require_auth: true },
    });
    expect((await withKey(id, '/c')).status).toBe(401);
  });
});

describe('transforms of a proxy', () => {
  const respond = (body: string, headers = json) => {
    destination.answer = (_request, response) => void response.writeHead(201, headers).end(body);
  };

  it('change the request, which already holds the data, and get the configuration', async () => {
    const code = `module.exports = async ({ args, configuration }) => ({ raw: {
      method: 'PUT', path: args.path + '/x', query: 'from=' + args.body.n.length,
      headers: { ...args.headers, 'x-mac': configuration.SECRET + args.body.n.slice(-4), 'svc-api-key': 'no', host: 'evil' },
      body: { card: args.body.n } } });`;
    const id = await newProxy({ request: { code }, configuration: { SECRET: 's-' } });
    const answer = await invoke(id, '/c', { text: cardText(), headers: { ...json, 'X-Own': 'kept' } });
    expect(answer.status).toBe(200);
    const [arrived] = destination.arrived;
    expect([arrived?.method, arrived?.url]).toEqual(['PUT', '/base/c/x?from=16']);
    expect(arrived?.headers).toMatchObject({ 'x-own': 'kept', 'x-mac': `s-${number.slice(-4)}` });
    expect(arrived?.headers.host).toBe(new URL(destination.url).host);
    expect(arrived?.headers).not.toHaveProperty('svc-api-key');
    expect(JSON.parse(arrived?.body.toString() ?? '')).toEqual({ card: number });
  });

  it('make a token of a card in the answer, which the caller does not see', async () => {
    respond(`{"id":"ch_1","number":"${number}"}`);
    const code = `module.exports = async ({ args: { status, body } }) => ({
      raw: { status: status + 1, headers: { 'x-id': body.id } },
      tokenize: { type: 'card_number', data: body.number } });`;
    const id = await newProxy({ ...ofApplication(), response: { code } });
    const { key } = await newKey(id);
    const answer = await withKey(id, `?svc-proxy-key=${key}`, { headers: { 'Accept-Encoding': 'gzip' } });
    expect([answer.status, answer.headers.get('x-id'), answer.headers.get('svc-proxy-status')]).toEqual([
      202,
      'ch_1',
      '202',
    ]);
    expect(answer.text).not.toContain(number);
    const made = JSON.parse(answer.text) as Token;
    expect(made).toMatchObject({ type: 'card_number', data: `XXXXXXXXXXXX${number.slice(-4)}` });
    expect(destination.arrived[0]?.headers['accept-encoding']).toBe('identity');
    const used = await invoke(await newProxy(), '', {
      text: `{{ ${made.id} }}`,
      headers: { 'Content-Type': 'text/plain' },
    });
    expect(used.status).toBe(201);
    expect(destination.arrived[1]?.body.toString()).toBe(number);
  });

  it('of a request make no tokens by their output, which no answer would name; nothing is sent', async () => {
    const code = `module.exports = async () => ({ raw: {}, tokenize: { type: 'token', data: 'lost' } });`;
    const { status, text } = await invoke(await newProxy({ ...ofApplication(), request: { code } }), '/c');
    expect([status, text]).toEqual([500, expect.stringContaining('request.tokenize')]);
    expect(destination.arrived).toEqual([]);
  });

  it('make tokens by the rights of the application only', async () => {
    respond('{}');
    const output = (container: string) => `module.exports = async () => ({
      tokenize: { type: 'token', data: 'made', containers: ['${container}'] } });`;
    const rule = {
      priority: 1,
      container: '/a/',
      transform: 'mask',
      permissions: ['token:use', 'token:create'],
    };
    const bound = await newApplication({ rules: [{ ...rule, description: 'one container' }] });
    const using = await newApplication({ permissions: ['token:use'] });
    const answerOf = async (container: string, own: object) =>
      invoke(await newProxy({ ...own, response: { code: output(container) } }), '/c');
    expect((await answerOf('/a/b/', { application: { id: bound.id } })).status).toBe(201);
    for (const own of [{ application: { id: bound.id } }, { application: { id: using.id } }, {}]) {
      const refused = await answerOf('/zzz/', own);
      expect([refused.status, refused.text]).toEqual([403, expect.not.stringContaining('"id"')]);
    }
  });

  it('may answer themselves; a request that cannot be sent or violates the rules is an error', async () => {
    const run = async (name: 'request' | 'response', code: string) =>
      invoke(
        await newProxy({
          [name]: {
            code: `const e = require('@token-vault/reactor'); module.exports = async (req) => { ${code} };`,
          },
        }),
        '/c',
      );
    const own = await run(
      'request',
      `throw new e.CustomHttpResponseError({ status: 418, headers: { 'x-a': 'b' }, body: { own: 1 } });`,
    );
    expect([own.status, own.text, own.headers.get('svc-proxy-status')]).toEqual([418, '{"own":1}', null]);
    expect(await run('request', `throw new e.BadRequestError('no amount');`)).toMatchObject({
      status: 400,
      body: { errors: { error: ['no amount'] } },
    });
    for (const raw of [
      `headers: { 'x-a': 'a\\r\\nx-b: c' }`,
      `headers: { 'x a': 'b' }`,
      `path: '/../../admin'`,
      `path: '//evil.example/..%2f'`,
      `path: '@evil.example'`,
      `method: 'CONNECT'`,
      `query: 1`,
    ])
      expect([raw, (await run('request', `return { raw: { ${raw} } };`)).status]).toEqual([raw, 500]);
    expect(destination.arrived).toEqual([]);
    for (const raw of [`status: 101`, `status: '200'`, `headers: { 'x-a': 'a\\nb' }`])
      expect([raw, (await run('response', `return { raw: { ${raw} } };`)).status]).toEqual([raw, 500]);
    destination.arrived.length = 0;
    respond('x'.repeat(1024 * 1024 + 1), { 'Content-Type': 'text/plain' });
    expect((await run('response', 'return {};')).status).toBe(502);
  });

  it('send requests only where the lists allow it', async () => {
    const code = `module.exports = async ({ args: { query } }) => {
      const told = await fetch(decodeURIComponent(query)).then((it) => it.status, () => 'refused');
      return { raw: { query: 'told=' + told } };
    };`;
    const id = await newProxy({ request: { code } });
    const ask = (url: string) => invoke(id, `?${encodeURIComponent(url)}`, { method: 'GET' });
    await ask(`${destination.url}/other`);
    await ask('https://127.0.0.1:1/');
    expect(destination.arrived.map(({ url }) => url)).toEqual([
      '/other',
      '/base?told=200',
      '/base?told=refused',
    ]);
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
    await change(id, own.id);
    await new Promise((resolve) => setTimeout(resolve, 110));
    reply();
    expect(await answer).toMatchObject({ status });
    expect((await answer).text).not.toContain('secret');
  });
});
