import { randomUUID } from 'node:crypto';
import { type Client, waitUntil } from '@token-vault/test-support';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { makeOpenProxyOf, nowhere } from '../world/proxies.ts';
import { makeSession } from '../world/sessions.ts';
import { functionOf, useVault } from '../world/vault.ts';

/** Gives the status of the answer to a guess. */
type Guess = (session: Client) => Promise<number>;

const limit = 2;
const settings = { data_misses_per_minute: String(limit), proxy_destinations: nowhere };
const permissions = ['token:create', 'token:use'];
const vault = useVault();
let reactors: Record<'output' | 'service' | 'plain', string>;
let opener: Client;
let authorizer: Client;

const clientOf = async (body: object = {}) => (await vault.makeApplication({ permissions, ...body })).client;

async function makeReactor(code: string): Promise<string> {
  const application = await vault.makeApplication({ permissions });
  return `/reactors/${await vault.makeReactor(code, { application })}/react`;
}

const openSession = (): Promise<Client> => makeSession(opener, authorizer, { permissions });

beforeAll(() => vault.setTenant(settings));
beforeEach(async () => {
  // A window of the limit belongs to one application.
  opener = await clientOf({ type: 'public', permissions: ['token:create'] });
  authorizer = await clientOf();
  reactors = {
    plain: await makeReactor('module.exports = async () => ({ raw: 1 });'),
    output: await makeReactor('module.exports = async (req) => ({ tokenize: req.args });'),
    service: await makeReactor(`module.exports = async (req) => ({
      raw: { status: await req.svc.tokenize(req.args).then(() => 200, (error) => error.status) },
    });`),
  };
});

const probe = () => ({ type: 'token', data: randomUUID(), deduplicate_token: true });
const guesses: Readonly<Record<string, Guess>> = {
  HTTP: async (session) => (await session.request('POST', '/tokens', { body: probe() })).status,
  'the output of a reactor': async (session) =>
    (await session.request('POST', reactors.output, { body: { args: { guess: probe() } } })).status,
  'the code of a reactor': async (session) => {
    const ask = { body: { args: { guess: probe() } } };
    const { body } = await session.expect<{ raw: { status: number } }>(200, 'POST', reactors.service, ask);
    return body.raw.status;
  },
};

/** A caller that may use a token and not see it asks by an expression that gives no value unless the data matches. */
describe('expressions over hidden data that give no value', () => {
  let tokenId: string;
  let user: Client;
  /** 400 or 429 for a miss. Else 502 of the proxy, since nothing listens there, and 200 of a reactor. */
  type Ask = (
    pattern: string,
  ) => Promise<{ status: number; headers: Headers; body: { errors?: Record<string, string[]> } }>;
  const expression = (pattern: string) => `{{ ${tokenId} | json: '$[?match(@,"${pattern}")]' }}`;
  const asks: Readonly<Record<string, Ask>> = {
    'the proxy': (pattern) =>
      user.request('GET', `/proxy?x=${encodeURIComponent(expression(pattern))}`, {
        headers: { 'SVC-PROXY-URL': nowhere },
      }),
    'a header of the proxy': (pattern) =>
      user.request('GET', '/proxy', {
        headers: {
          'SVC-PROXY-URL': nowhere,
          'X-Value': `{{ ${tokenId} | json: '$.${pattern === 'hid.*' ? 'a' : 'b'}' }}`,
        },
      }),
    'the arguments of a reactor': (pattern) =>
      user.request('POST', reactors.plain, { body: { args: { guess: expression(pattern) } } }),
  };

  beforeEach(async () => {
    const writer = await clientOf();
    const body = { type: 'token', data: { a: 'hidden', b: 'line\nend' } };
    tokenId = (await writer.expect<{ id: string }>(201, 'POST', '/tokens', { body })).body.id;
    user = await clientOf({ permissions: ['token:use'] });
  });

  it.each(Object.keys(asks))('are limited through %s, and then matches are refused too', async (by) => {
    const ask = asks[by] as Ask;
    const right = await ask('hid.*');
    expect([400, 422, 429]).not.toContain(right.status);
    const wrong = [await ask('hin.*'), await ask('her.*'), await ask('other')];
    const miss = by === 'a header of the proxy' ? 422 : 400;
    expect(wrong.map(({ status }) => status)).toEqual([miss, miss, 429]);
    if (miss === 400)
      expect(Object.values(wrong[0]?.body.errors ?? {})).toEqual([['An expression gives no value.']]);
    const refused = await ask('hid.*');
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get('Retry-After'))).toBeGreaterThan(0);
  });

  it.each(Object.keys(asks))(
    'count also when they give a value, where hits count, through %s',
    async (by) => {
      await vault.setTenant({ ...settings, count_data_hits: 'true' });
      const ask = asks[by] as Ask;
      const statuses = [];
      for (let n = 0; n < limit + 2; n += 1) statuses.push((await ask('hid.*')).status);
      await vault.setTenant(settings);
      expect(statuses.map((status) => status === 429)).toEqual([false, false, true, true]);
    },
  );

  it('do not count for a caller that sees every token', async () => {
    const rules = [
      { priority: 1, container: '/', transform: 'reveal', permissions: ['token:read', 'token:use'] },
    ];
    user = await clientOf({ permissions: [], rules });
    const ask = asks['the proxy'] as Ask;
    const statuses = [];
    for (let n = 0; n < limit + 2; n += 1) statuses.push((await ask('other')).status);
    expect(new Set(statuses)).toEqual(new Set([400]));
  });
});

describe('the size of what an expression gives to code', () => {
  it('is 413 before the code of a proxy, and a miss, also beside large headers', async () => {
    const author = await clientOf();
    const token = { type: 'token', data: 'x'.repeat(8_000) };
    const { id } = (await author.expect<{ id: string }>(201, 'POST', '/tokens', { body: token })).body;
    const owner = await clientOf({ permissions: ['token:use'] });
    const request = { code: functionOf('return { raw: {} };') };
    const body = { name: 'coded', destination: nowhere, request };
    const proxy = (await vault.manager.expect<{ id: string }>(201, 'POST', '/proxies', { body })).body;
    const headers = { 'X-Pad': 'p'.repeat(2_000) };
    const ask = async (length: number) => {
      const sent = { static: 's'.repeat(1_040_000), value: `{{ ${id} | slice: 0, ${length} }}` };
      return (await owner.request('POST', `/proxies/${proxy.id}/invoke/a`, { headers, body: sent })).status;
    };
    expect([await ask(1), await ask(8_000), await ask(8_000), await ask(1)]).toEqual([502, 413, 413, 429]);
  });

  it('does not depend on the configuration of a reactor', async () => {
    const configuration = Object.fromEntries(
      Array.from({ length: 25 }, (_, n) => [`KEY_${n}`, 'c'.repeat(9_000)]),
    );
    const id = await vault.makeReactor('module.exports = async (req) => ({ raw: req.args.a.length });', {
      configuration,
    });
    const user = await clientOf({ permissions: ['token:use'] });
    const a = 'a'.repeat(1_000_000);
    const { status } = await user.request('POST', `/reactors/${id}/react`, { body: { args: { a } } });
    expect(status).toBe(200);
  });
});

/** The application of the proxies sees every token. Their clients have no key. */
describe('misses of the clients of a proxy', () => {
  const rules = [
    { priority: 1, container: '/', transform: 'reveal', permissions: ['token:read', 'token:use'] },
  ];
  /** Gives the status of the answer to an expression that matches nothing. */
  type Miss = (expression: string) => Promise<number>;
  type MakeProxy = (code?: string) => Promise<string>;
  const clients: Readonly<Record<string, (makeProxy: MakeProxy) => Promise<Miss>>> = {
    async 'that name a token'(makeProxy) {
      const path = await makeProxy();
      return async (expression) =>
        (await vault.manager.request('POST', path, { key: null, body: { expression } })).status;
    },
    async 'whose expression code passes on to a reactor'(makeProxy) {
      const inner = reactors.plain.split('/')[2] ?? '';
      const path = await makeProxy(`/* {{ */ module.exports = async ({ args, svc }) => ({
        raw: await svc.reactors.react('${inner}', { args: args.body }).then(() => 200, ({ status }) => status),
      });`);
      return async (expression) => {
        const body = { expression: expression.replace('{{', "{{ '{{' }}") };
        return Number((await vault.manager.request('POST', path, { key: null, body })).text);
      };
    },
  };
  const applications = {
    'reads all in plaintext': { permissions: [], rules },
    'may only use tokens': { permissions: ['token:use'] },
  };

  it.each(
    Object.keys(clients).flatMap((client) => Object.keys(applications).map((rights) => [client, rights])),
  )('%s count, when the application %s', async (client = '', rights = '') => {
    const body = { type: 'token', data: { a: 'hidden' } };
    const author = await clientOf();
    const { id } = (await author.expect<{ id: string }>(201, 'POST', '/tokens', { body })).body;
    const owner = await vault.makeApplication(applications[rights as keyof typeof applications]);
    const miss = await clients[client]?.((code) => makeOpenProxyOf(vault.manager, owner.id, code));
    const statuses: (number | undefined)[] = [];
    for (let n = 0; n < limit + 2; n += 1) statuses.push(await miss?.(`{{ ${id} | json: '$.b${n}' }}`));
    expect(statuses).toEqual([400, 400, 429, 429]);
  });
});

describe('misses of deduplication', () => {
  it.each(Object.keys(guesses))(
    'count together for all sessions of an application, through %s',
    async (by) => {
      const statuses = [];
      for (let session = 0; session < limit + 2; session += 1)
        statuses.push(await guesses[by]?.(await openSession()));
      const answered = by === 'HTTP' ? 201 : 200;
      expect(statuses).toEqual([answered, answered, 429, 429]);
    },
  );
});

describe('a search of data that other callers gave a value once', () => {
  it('finds all of them, and is no miss', async () => {
    const [stranger, author] = [
      await clientOf({ type: 'public', permissions: ['token:create'] }),
      await clientOf(),
    ];
    const [value, other] = [randomUUID(), randomUUID()];
    const untilMs = Math.ceil(Date.now() / 1_000) * 1_000 + 3_000;
    const index = `{% assign now = 'now' | date: '%s' | plus: 0 %}{% if now < ${untilMs / 1_000} %}{{ data }}{% else %}x{% endif %}`;
    const token = (id: string, data: string, search_indexes: string[]) => ({
      id: `${id}-${randomUUID()}`,
      type: 'token',
      data,
      search_indexes,
    });
    const late = [value, other].flatMap((data) =>
      Array.from({ length: 12 }, () => token('000-late', data, [index])),
    );
    await Promise.all(late.map((body) => stranger.expect(201, 'POST', '/tokens', { body })));
    const kept = token('kept', value, ['{{ data }}']);
    await author.expect(201, 'POST', '/tokens', { body: kept });
    await waitUntil(() => Date.now() > untilMs);

    const searcher = await clientOf({ permissions: ['token:read', 'token:search'] });
    const search = async (query: string) => {
      const { status, body } = await searcher.request<{ pagination?: { total_items: number } }>(
        'POST',
        '/tokens/search',
        { body: { query } },
      );
      return [status, body.pagination?.total_items];
    };
    for (let n = 0; n < limit + 2; n += 1) expect(await search(`data:${value}`)).toEqual([200, 13]);
    expect(await search(`id:${kept.id} AND NOT data:${other}`)).toEqual([200, 1]);
    // The value of an index is that of the time when its token was written.
    expect(await search(`data:${other}`)).toEqual([200, 12]);
    expect(await search(`data:${randomUUID()}`)).toEqual([200, 0]);
    expect(await search(`data:${value}`)).toEqual([429, undefined]);
  });
});
