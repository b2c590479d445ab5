import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isChanged, parseExactly } from '../src/exact-numbers.ts';
import { randomUUID } from 'node:crypto';
import { isSecret } from '@token-vault/contracts';
import { goodKey, principalWith, startTinyApp, type TinyApp } from './tiny-app.ts';

/** A body with what its secrets hold. */
const exposed = (body: object | undefined) =>
  body &&
  Object.fromEntries(
    Object.entries(body).map(([name, value]) => [
      name,
      isSecret(value) ? value.expose() : (value as unknown),
    ]),
  );

let app: TinyApp;
let start: (isLenient: boolean) => Promise<TinyApp>;
let calls: number;

beforeEach(async () => {
  calls = 0;
  const echo = async (input: { body?: object; query?: unknown }) => {
    calls += 1;
    return { body: { body: exposed(input.body), query: input.query } as never };
  };
  const names = [
    'createToken',
    'updateToken',
    'listTokens',
    'getToken',
    'createApplication',
    'createReactor',
    'updateTenant',
    'tokenize',
    'regenerateApplicationKey',
    'createApplicationKey',
  ] as const;
  const permissions = [
    'token:create',
    'token:read',
    'token:update',
    'application:create',
    'application:update',
    'reactor:create',
    'tenant:update',
  ] as const;
  // A tenant of its own: the large bodies of one tenant wait until those of the tests before have been charged (body-turns.ts).
  const tenant = { id: randomUUID(), plan: 'standard', settings: {} } as const;
  start = (isLenient) =>
    startTinyApp({
      dependencies: { isLenient },
      handlers: Object.fromEntries(names.map((name) => [name, echo])),
      authentications: {
        [goodKey]: {
          kind: 'authenticated',
          principal: principalWith({ permissions, tenant }),
          keyHash: 'good',
        },
      },
    });
  app = await start(false);
});
afterEach(() => app.stop());

const send = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) => {
  const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
  return app.send(path, {
    method,
    headers: { 'Content-Type': type, ...headers },
    ...(body === undefined ? {} : { body }),
  });
};
const errorsOf = async (...request: Parameters<typeof send>) => {
  const reply = await send(...request);
  expect(reply.status).toBe(400);
  expect(calls).toBe(0);
  return reply.body.errors as Record<string, string[]>;
};
const card = { type: 'token', data: 1 };
const lenient = { Prefer: 'handling=lenient' };

describe('an unknown field', () => {
  it.each([
    [
      'POST',
      '/tokens',
      { ...card, expires_On: '1/1/2031' },
      'expires_On',
      'is not a known field; is expires_at meant?',
    ],
    [
      'POST',
      '/tokens',
      { ...card, container: ['/a/'] },
      'container',
      'is not a known field; is containers meant?',
    ],
    [
      'POST',
      '/tokens',
      { ...card, colour_of_the_customer: 1 },
      'colour_of_the_customer',
      'is not a known field',
    ],
    ['PATCH', '/tokens/abc', { expireAt: null }, 'expireAt', 'is not a known field; is expires_at meant?'],
    [
      'POST',
      '/applications',
      {
        name: 'a',
        type: 'private',
        rules: [{ priority: 1, container: '/', transform: 'mask', permissions: ['token:read'], prio: 2 }],
      },
      'rules.0.prio',
      'is not a known field',
    ],
    [
      'POST',
      '/reactors',
      {
        name: 'a',
        code: 'b',
        configuration: {},
        application: { id: '22222222-2222-4222-8222-222222222222', name: 'x' },
      },
      'application.name',
      'is not a known field',
    ],
    ['GET', '/tokens?metdata.a=b', undefined, 'metdata.a', 'is not a known field'],
    ['GET', '/tokens?pgae=2', undefined, 'pgae', 'is not a known field; is page meant?'],
    ['GET', '/tokens/abc?x=1', undefined, 'x', 'is not a known field'],
  ])('in %s %s is refused by its name', async (method, path, body, field, message) => {
    expect(await errorsOf(method, path, body)).toEqual({ [field]: [message] });
  });

  it.each([
    ['{"overlap": 60}', 'overlap', 'is a parameter of the query, not a field of the body'],
    ['{"wait": 60}', 'wait', 'is not a known field'],
    ['overlap=60', 'body', 'is not valid JSON'],
  ])('is refused where the operation takes no body, which may be empty: %s', async (text, field, message) => {
    const path = `/applications/${randomUUID()}/regenerate`;
    const refused = await send('POST', path, Buffer.from(text));
    expect([refused.status, refused.body.errors, calls]).toEqual([400, { [field]: [message] }, 0]);
    for (const body of [undefined, {}, null]) expect((await send('POST', path, body)).status).toBe(200);
    expect((await send('POST', `${path}?overlap=60`)).body).toEqual({ query: { overlap: 60 } });
  });

  it('whose name is longer than any of the interface is compared with none of them', async () => {
    // Only letters and digits are compared.
    const [longest, longer] = ['metadata'.padEnd(40, '_'), 'metadata'.padEnd(41, '_')];
    expect(await errorsOf('POST', '/tokens', { ...card, [longest]: 1, [longer]: 1 })).toEqual({
      [longest]: ['is not a known field; is metadata meant?'],
      [longer]: ['is not a known field'],
    });
  });

  it('is ignored when the caller prefers that, and the answer says so', async () => {
    const reply = await send(
      'POST',
      '/tokens',
      { ...card, expireAt: 1 },
      { Prefer: 'respond-async; x, Handling="lenient"' },
    );
    expect([reply.status, reply.headers['preference-applied']]).toEqual([201, 'handling=lenient']);
    expect(reply.body).toMatchObject({ body: card });
    expect((await send('GET', '/tokens?unknown=1', undefined, lenient)).status).toBe(200);
    expect((await send('GET', '/tokens')).headers).not.toHaveProperty('preference-applied');
  });

  it.each(['handling=strict, handling=lenient', 'wait=5; handling=lenient'])(
    'is refused when lenient handling is no first preference of its name, or a parameter: %s',
    async (preference) => {
      const reply = await send('POST', '/tokens', { ...card, expireAt: 1 }, { Prefer: preference });
      expect(reply.status).toBe(400);
      expect(reply.headers).not.toHaveProperty('preference-applied');
    },
  );

  it('is ignored without the preference too, where the setting says so, but never selects everything', async () => {
    await app.stop();
    app = await start(true);
    expect((await send('POST', '/tokens', { ...card, expireAt: 1 })).status).toBe(201);
    expect((await send('GET', '/tokens?unknown=1')).status).toBe(200);
    expect((await send('GET', '/tokens?id[]=a')).status).toBe(400);
  });

  it('may have any name in a map', async () => {
    const body = { ...card, data: { anything: { at: 'all' } }, metadata: { whatever: 'x' } };
    expect((await send('POST', '/tokens', body)).status).toBe(201);
    expect((await send('GET', '/tokens?metadata.whatever=x')).status).toBe(200);
    expect((await send('POST', '/tokenize', { any: { thing: 1 } })).status).toBe(200);
  });

  it.each(['id[]=a', 'id[0]=a', 'metadata[a]=b', 'type[]=card'])(
    '%s never selects everything, also with lenient handling',
    async (query) => {
      const name = query.split('=')[0] ?? '';
      expect(await errorsOf('GET', `/tokens?${query}`)).toHaveProperty([name]);
      expect(await errorsOf('GET', `/tokens?${query}`, undefined, lenient)).toHaveProperty([name]);
    },
  );

  it('is refused as the 1,001st parameter too', async () => {
    const query = Array.from({ length: 1_001 }, (_, index) => `id=${index}`).join('&');
    expect(await errorsOf('GET', `/tokens?${query}`)).toEqual({
      query: ['must have at most 1000 parameters'],
    });
  });
});

describe('counts', () => {
  const entries = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, 1]));
  const items = (count: number, item: unknown) => Array.from({ length: count }, () => item);

  it.each([
    [
      'POST',
      '/tokens',
      { ...card, metadata: entries(90_000) },
      { metadata: ['must have at most 50 entries'] },
    ],
    ['PATCH', '/tokens/abc', { metadata: entries(90_000) }, { metadata: ['must have at most 100 entries'] }],
    [
      'POST',
      '/reactors',
      { name: 'a', code: 'b', configuration: entries(90_000) },
      { configuration: ['must have at most 25 entries'] },
    ],
    [
      'PUT',
      '/tenants/self',
      { name: 'a', settings: entries(90_000) },
      { settings: ['must have at most 50 entries'] },
    ],
    [
      'POST',
      '/tokens',
      { ...card, search_indexes: items(200_000, 1) },
      { search_indexes: ['must have at most 10 items'] },
    ],
    [
      'POST',
      '/tokens',
      { ...card, containers: items(200_000, 1) },
      { containers: ['must hold exactly one container'] },
    ],
    [
      'POST',
      '/applications',
      { name: 'a', type: 'private', permissions: items(200_000, 'x') },
      { permissions: ['must have at most 50 items'] },
    ],
  ])('in %s %s are checked before the items', async (method, path, body, errors) => {
    expect(await errorsOf(method, path, body)).toEqual(errors);
  });

  it('of errors are bounded, and the answer says how many more there are', async () => {
    const rule = {
      priority: 'x',
      transform: 'x',
      permissions: 'x',
      conditions: 'x',
      container: 1,
      description: 1,
    };
    const errors = await errorsOf('POST', '/applications', {
      name: 'a',
      type: 'private',
      rules: items(100, rule),
    });
    expect(Object.keys(errors)).toHaveLength(101);
    expect(errors['more']).toEqual(['500 more fields are not valid']);
  });

  it('of unknown fields are bounded, however many there are', async () => {
    expect(Object.keys(await errorsOf('POST', '/tokens', entries(90_000))).length).toBeLessThanOrEqual(101);
  });
});

describe('a body', () => {
  it('of which every field is optional may be absent', async () => {
    const path = `/applications/${randomUUID()}/keys`;
    expect(await errorsOf('POST', '/tokens')).toEqual({ body: ['is required'] });
    expect(await send('POST', path)).toMatchObject({ status: 201, body: { body: {} } });
  });

  it.each([
    ['arrays', (levels: number) => '['.repeat(levels) + ']'.repeat(levels)],
    ['objects', (levels: number) => '{"a":'.repeat(levels) + '1' + '}'.repeat(levels)],
    [
      'arrays after brackets in a text',
      (levels: number) => `["]]\\"[[[\\\\",${'['.repeat(levels - 1) + ']'.repeat(levels)}`,
    ],
    [
      'arrays after long texts',
      (levels: number) => {
        const brackets = '['.repeat(1_000);
        const texts = [brackets, `${brackets}\\\\`, `${brackets}\\"${brackets}`, `\\"${brackets}`, brackets];
        return `[${texts.map((text) => `"${text}",`).join('')}${'['.repeat(levels - 1) + ']'.repeat(levels)}`;
      },
    ],
  ])('may be nested 100 levels deep and no deeper: %s', async (_what, nested) => {
    const create = (levels: number) => send('POST', '/tokens', `{"type":"token","data":${nested(levels)}}`);
    expect((await create(100)).status).toBe(201);
    const message = 'must not be nested deeper than 100 levels';
    expect((await create(101)).body.errors).toEqual({ body: [message] });
  });
});

describe('messages', () => {
  it.each([
    [{}, { type: ['is required'], data: ['is required'] }],
    [
      { type: 'x', data: 1 },
      {
        type: [
          'must be one of token, card, bank, card_number, us_bank_account_number, us_bank_routing_number, social_security_number, employer_id_number',
        ],
      },
    ],
    [{ ...card, fingerprint_expression: '' }, { fingerprint_expression: ['must not be empty'] }],
    [
      { ...card, fingerprint_expression: 'x'.repeat(401) },
      { fingerprint_expression: ['must be at most 400 characters long'] },
    ],
    [{ ...card, deduplicate_token: 'yes' }, { deduplicate_token: ['must be true or false'] }],
    [{ ...card, search_indexes: 'x' }, { search_indexes: ['must be a list'] }],
    [{ ...card, metadata: [] }, { metadata: ['must be an object'] }],
    [[], { body: ['must be an object'] }],
  ])('of %j are in the words of the vault', async (body, errors) => {
    expect(await errorsOf('POST', '/tokens', body)).toEqual(errors);
  });

  it('of paging and ids too', async () => {
    expect(await errorsOf('GET', '/tokens?size=101&page=x')).toEqual({
      size: ['must be at most 100'],
      page: ['must be a whole number'],
    });
  });
});

describe('a number that JavaScript would change', () => {
  const message = ['has a number that would be changed: send it as a string'];
  it.each([
    ['{"type":"token","data":9007199254740993}', 'data'],
    ['{"type":"token","data":{"a":[1,{"b": -12345678901234567890}]}}', 'data.a.1.b'],
    ['{"type":"token","data":[0.1234567890123456789]}', 'data.0'],
    ['{"type":"token","data":1e400}', 'data'],
    ['{"type":"token","data":[1E+30]}', 'data.0'],
    ['{"type":"token","data":1e-400}', 'data'],
    ['12345678901234567890', 'body'],
  ])('is refused by its path: %s', async (body, field) => {
    const path = field === 'body' ? '/tokenize' : '/tokens';
    expect(await errorsOf('POST', path, body)).toEqual({ [field]: message });
  });

  it.each([
    '4242424242424242',
    '-9007199254740991',
    '0.1',
    '1e5',
    '1.5e-7',
    '0',
    '-0',
    '1000000000000000',
    '0.12345678901234567',
    '5e-324',
    '0.00',
  ])('is not %s', (source) => expect(isChanged(source, Number(source))).toBe(false));

  it('is not searched in text', () => {
    const text = '{"a":"4242 4242, 12345678901234567890","b":"x: 1e999"}';
    expect(parseExactly(text)).toEqual(JSON.parse(text));
  });
});
