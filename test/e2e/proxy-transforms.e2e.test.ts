import type { Token } from '@token-vault/contracts';
import { describe, expect, it } from 'vitest';
import { nowhere } from '../world/proxies.ts';
import { json, useProxies } from './configured-proxies.ts';

const proxies = useProxies();
const { vault, destination, number, cardText, newProxy, ofApplication, newKey, invoke, withKey } = proxies;
const newApplication = vault.makeApplication;

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
    const id = await newProxy({ request: { code: telling } });
    const ask = (url: string) => invoke(id, `?${encodeURIComponent(url)}`, { method: 'GET' });
    await ask(`${destination.url}/other`);
    await ask('https://127.0.0.1:1/');
    expect(destination.arrived.map(({ url }) => url)).toEqual([
      '/other',
      '/base?told=200',
      '/base?told=refused',
    ]);
  });

  it('send requests to a server that only the list of the proxy has, while the tenant allows it too', async () => {
    const code = `const { CustomHttpResponseError } = require('@token-vault/reactor');
      module.exports = async ({ args: { query } }) => {
        const body = await fetch(decodeURIComponent(query)).then((it) => it.status, () => 'refused');
        throw new CustomHttpResponseError({ status: 200, body });
      };`;
    const tell = async (destinations?: readonly string[]) => {
      const id = await newProxy({ destination: nowhere, destinations, request: { code } });
      return (await invoke(id, `?${encodeURIComponent(destination.url)}`, { method: 'GET' })).text;
    };
    expect([await tell(), await tell(['https://*.example.com'])]).toEqual(['refused', 'refused']);
    expect(destination.arrived).toEqual([]);
    expect(await tell([destination.url])).toBe('200');
    await vault.setTenant({ proxy_destinations: nowhere });
    try {
      expect(await tell([destination.url])).toBe('refused');
    } finally {
      await vault.setTenant({ proxy_destinations: `${destination.url} ${nowhere}` });
    }
    expect(destination.arrived).toHaveLength(1);
  });
});

/** Code that sends a request to the URL in its query, and answers its result. */
const telling = `module.exports = async ({ args: { query } }) => {
  const told = await fetch(decodeURIComponent(query)).then((it) => it.status, () => 'refused');
  return { raw: { query: 'told=' + told } };
};`;
