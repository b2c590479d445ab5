import { threadShares, type Turn } from '@token-vault/batching';
import { DomainError, ValidationError, type RawRequest, secret } from '@token-vault/contracts';
import {
  createExpressions,
  createInlineWorkers,
  type DetokenizedToken,
  type Json,
} from '@token-vault/expressions';
import { describe, expect, it } from 'vitest';
import { piecesOfJson } from '../src/json-body.ts';
import { readOutgoing } from '../src/outgoing.ts';
import { inForm, piecesOfPairs } from '../src/pairs.ts';
import { Template } from '../src/template.ts';

const most = 1_024 * 1_024;
const expressions = createExpressions(createInlineWorkers());
const hostile = `"\\&<>'=+ %\n{{ card-1 }}é€`;
const dataOf: Readonly<Record<string, Json>> = {
  'card-1': { number: '4111111111111111', holder: 'Jo "J" & Co' },
  hostile,
  latin: 'é',
  text: 'a b',
  nothing: null,
  'line-end': 'a\r\nx-injected: 1',
};
const tokens = new Map<string, DetokenizedToken>(
  Object.entries(dataOf).map(([id, data]) => [id, { data, token: { id, data } }]),
);

interface Given {
  readonly query?: string;
  readonly headers?: readonly (readonly [string, string])[];
  readonly body?: string | Uint8Array;
  readonly type?: string;
  readonly url?: string;
  readonly signal?: AbortSignal;
}

const holder = { tenantId: 'tenant', applicationId: 'application' };

async function outgoing({
  query = '',
  headers = [],
  body = '',
  type,
  url = 'https://api.test/v1',
  signal = new AbortController().signal,
}: Given) {
  const raw: RawRequest = {
    method: 'POST',
    path: '/proxy',
    query,
    headers: type === undefined ? headers : [...headers, ['Content-Type', type]],
    body: secret(typeof body === 'string' ? Buffer.from(body) : body),
    signal,
  };
  const template = await readOutgoing(raw, new URL(url), holder);
  return template.fill(expressions.of({}, { tenantId: 'tenant', applicationId: 'a' }), tokens);
}

const bodyOf = async (type: string, body: string) =>
  Buffer.from((await outgoing({ type, body })).body).toString();
const refusalOf = async (given: Given): Promise<unknown> =>
  outgoing(given).then(
    () => 'not refused',
    (error: unknown) =>
      error instanceof DomainError ? [error.status, Object.keys(error.errors ?? {})] : error,
  );

describe('a body of JSON', () => {
  it('has values as JSON where a string is one expression, and as text within a string', async () => {
    const sent = await bodyOf(
      'application/json',
      '{"card": "{{ card-1 }}", "last": "ends in {{ card-1 | json: \'$.number\' | last4 }}!", "n": "{{ nothing }}"}',
    );
    expect(JSON.parse(sent)).toEqual({ card: dataOf['card-1'], last: 'ends in 1111!', n: null });
  });

  it.each(['application/vnd.api+json; charset=utf-8', 'application/vnd.a+b+json', 'text/json'])(
    'keeps all other bytes: %s',
    async (mediaType) => {
      const sent = await bodyOf(
        mediaType,
        '{ "big": 12345678901234567890,\t"e": 1.0e+2, "{{ name }}" : "\\u00e9\\"\\\\", "a":["{{ text }}"]}',
      );
      expect(sent).toBe(
        '{ "big": 12345678901234567890,\t"e": 1.0e+2, "{{ name }}" : "\\u00e9\\"\\\\", "a":["a b"]}',
      );
    },
  );

  it('holds a hostile value as a value, in which no expressions are searched', async () => {
    expect(JSON.parse(await bodyOf('application/json', '["{{ hostile }}", "x{{ hostile }}\\"y"]'))).toEqual([
      hostile,
      `x${hostile}"y`,
    ]);
  });

  it.each([
    ['{"a": {{ card-1 }}}', 'outside of a string'],
    ['{"a": "{{ card-1 }', 'without an end'],
    ['["\\q{{ card-1 }}"]', 'with a wrong escape'],
    ['["{{ card-1 "]', 'with an open expression'],
    ['["{{ card-1 | no_such_filter }}"]', 'with an unknown filter'],
  ])('%s is refused: %s', async (body) => {
    expect(await refusalOf({ type: 'application/json', body })).toEqual([400, ['body']]);
  });

  it('that a quote of an expression ends early is refused with a hint', async () => {
    const body = '{"n": "{{ card-1 | json: "$.number" }}"}';
    const message = `in a string of JSON, write quotes as ' or \\"`;
    await expect(outgoing({ type: 'application/json', body })).rejects.toMatchObject({
      errors: { body: [expect.stringContaining(message)] },
    });
  });
});

describe('a form', () => {
  it('has values percent-encoded, however its expressions are written, and keeps all other pairs', async () => {
    const written = new URLSearchParams({ v: 'a {{ hostile }}' }).toString();
    const sent = await bodyOf('application/x-www-form-urlencoded', `x=%7B1+%7d&${written}&raw={{text}}&z`);
    expect(sent).toMatch(/^x=%7B1\+%7d&v=/);
    expect(Object.fromEntries(new URLSearchParams(sent))).toEqual({
      x: '{1 }',
      v: `a ${hostile}`,
      raw: 'a b',
      z: '',
    });
  });

  it('names the invalid pair', async () => {
    const type = 'application/x-www-form-urlencoded';
    expect(await refusalOf({ type, body: 'a=1&card=%ZZ{{ card-1 }}' })).toEqual([400, ['body.card']]);
  });
});

describe('a body of text', () => {
  it('has values unchanged', async () => {
    expect(await bodyOf('text/plain', 'a {{ text }} b {{ card-1 }}')).toBe(
      'a a b b {"number":"4111111111111111","holder":"Jo \\"J\\" & Co"}',
    );
  });

  it('of XML has values escaped, and the text around them unchanged', async () => {
    expect(await bodyOf('application/soap+xml', '<a b="{{ hostile }}">&amp;{{ text }}</a>')).toBe(
      '<a b="&quot;\\&amp;&lt;&gt;&#39;=+ %\n{{ card-1 }}é€">&amp;a b</a>',
    );
  });

  it('is refused where it is not UTF-8 and holds an expression', async () => {
    const body = Buffer.concat([Buffer.from([0xff]), Buffer.from('{{ text }}')]);
    expect(await refusalOf({ type: 'text/plain', body })).toEqual([400, ['body']]);
  });
});

describe('a body of another kind', () => {
  const bytes = Buffer.concat([Buffer.from([0, 255, 13, 10]), Buffer.from('{{ card-1 }}')]);

  it.each(['application/octet-stream', 'multipart/form-data; boundary=x', 'image/png', ''])(
    'is passed on byte for byte: %s',
    async (type) => {
      expect(Buffer.from((await outgoing({ type, body: bytes })).body).equals(bytes)).toBe(true);
    },
  );

  it('is passed on byte for byte when it is compressed', async () => {
    const given = { type: 'application/json', headers: [['Content-Encoding', 'gzip']] as const, body: bytes };
    expect(Buffer.from((await outgoing(given)).body).equals(bytes)).toBe(true);
  });
});

describe('a query', () => {
  it('has values percent-encoded, after the query of the destination', async () => {
    const { url } = await outgoing({
      url: 'https://api.test/v1?fixed=1',
      query: `a=b+c&v=%7B%7B%20hostile%20%7D%7D&t={{+text+|+last4+}}`,
    });
    expect(url).toMatch(/^https:\/\/api\.test\/v1\?fixed=1&a=b\+c&v=/);
    expect(new URL(url).searchParams.get('v')).toBe(hostile.toWellFormed());
    expect(new URL(url).searchParams.get('t')).toBe('a b');
    expect(new URL(url).hash).toBe('');
  });
});

describe('headers', () => {
  it('have values as text; headers of the vault, of the connection and of gateways are not passed on', async () => {
    const { headers } = await outgoing({
      headers: [
        ['Authorization', 'Bearer {{ latin }}'],
        ['X-A', '1'],
        ['x-a', '2'],
        ['Connection', 'close, X-Named'],
        ['X-Named', '1'],
        ['SVC-API-KEY', 'key'],
        ['svc-proxy-url', 'https://api.test'],
        ['Cookie', 'a=b'],
        ['X-Forwarded-For', '10.0.0.1'],
        ['Referer', 'https://vault.example/proxies/p/invoke/c?svc-proxy-key=secret'],
        ['Forwarded', 'for=10.0.0.1'],
      ],
    });
    expect(headers.filter(([name]) => name !== 'Connection')).toEqual([
      ['Authorization', 'Bearer é'],
      ['X-A', '1'],
      ['x-a', '2'],
    ]);
  });

  it.each(['line-end', 'hostile'])('cannot hold the value of %s', async (id) => {
    expect(await refusalOf({ headers: [['X-A', `{{ ${id} }}`]] })).toEqual([422, ['headers.x-a']]);
  });

  // With many expressions, the name would reveal which of as many questions about the data is true.
  it.each(['{{ line-end | slice: 0, 3 }}', '{{ line-end }} {{ text | upcase }}'])(
    'does not say which header cannot hold a value where an expression has filters: %s',
    async (unfit) => {
      const error: unknown = await outgoing({
        headers: [
          ['X-First', '{{ text | slice: 0, 1 }}'],
          ['X-Unfit', unfit],
          ['X-Last', '{{ text | slice: 0, 1 }}'],
        ],
      }).catch((it: unknown) => it);
      expect(error).toMatchObject({ status: 422, errors: { headers: [expect.any(String)] } });
      expect(JSON.stringify([error, String(error)])).not.toMatch(/x-(first|unfit|last)/i);
    },
  );

  it.each<[string, readonly (readonly [string, string])[]]>([
    ['SVC-IDEMPOTENCY-KEY', [['SVC-IDEMPOTENCY-KEY', 'a']]],
    [
      'headers.content-type',
      [
        ['Content-Type', 'text/plain'],
        ['content-type', 'application/json'],
      ],
    ],
  ])('are refused for %s', async (field, headers) => {
    expect(await refusalOf({ headers })).toEqual([400, [field]]);
  });
});

it('names at most 100 tokens', async () => {
  const body = JSON.stringify(Array.from({ length: 101 }, (_, index) => `{{ tok-${index} }}`));
  expect(await refusalOf({ type: 'application/json', body })).toEqual([400, ['request']]);
});

it('finds an expression behind 400,000 strings without holding the thread for long', async () => {
  const body = `[${'"ab\\"",'.repeat(400_000)}"{{ text }}"]`;
  let turns = 0;
  const timer = setInterval(() => (turns += 1), 1);
  const sent = await outgoing({ type: 'application/json', body });
  clearInterval(timer);
  expect(Buffer.from(sent.body).subarray(-7).toString()).toBe(',"a b"]');
  expect(turns).toBeGreaterThan(5);
});

it('refuses with an error that holds no value', async () => {
  const error: unknown = await outgoing({ headers: [['X-A', '{{ line-end }}']] }).catch((it: unknown) => it);
  expect(JSON.stringify([error, String(error)])).not.toContain('x-injected');
  expect(error).not.toBeInstanceOf(ValidationError);
});

describe('a large body', () => {
  it('has at most 1,000 expressions, those of the query and of headers included', async () => {
    const many = (count: number) => '{{ text }}'.repeat(count);
    expect(await bodyOf('text/plain', many(1_000))).toBe('a b'.repeat(1_000));
    expect(await refusalOf({ type: 'text/plain', body: many(1_001) })).toEqual([400, ['body']]);
    const query = `a=${encodeURIComponent(many(600))}`;
    expect(await refusalOf({ query, type: 'text/plain', body: many(600) })).toEqual([400, ['body']]);
  });

  it('is refused at the first expression above the limit, before the rest is read', async () => {
    // Not closed, which is reported only when it is read.
    const body = `${'{{ text }}'.repeat(1_001)}{{ text`;
    const refusal = outgoing({ type: 'text/plain', body });
    await expect(refusal).rejects.toMatchObject({ errors: { body: [expect.stringContaining('1000')] } });
  });

  it.each([
    ['application/json', (value: string) => JSON.stringify({ a: value })],
    ['application/x-www-form-urlencoded', (value: string) => `a=${value}`],
  ])('has no expression in a value of more than 1 MiB: %s', async (type, write) => {
    const long = 'x'.repeat(most);
    expect(await refusalOf({ type, body: write(`${long}{{text}}`) })).toEqual([400, ['body']]);
    const other = write(long) + (type === 'application/json' ? ',"{{text}}"' : '&b={{text}}');
    expect(await bodyOf(type, other)).toBe(write(long) + (type === 'application/json' ? ',"a b"' : '&b=a+b'));
  });

  it.each([
    ['names of a form', 'application/x-www-form-urlencoded', '{{a&'.repeat(most)],
    ['strings of JSON', 'application/json', `[${'"",'.repeat(most)}"{{text}}"]`],
  ])('lets other requests work while it is read: %s', async (_name, type, body) => {
    let turns = 0;
    let isRead = false;
    const others = (async () => {
      while (!isRead) {
        await new Promise((resolve) => setImmediate(resolve));
        turns += 1;
      }
    })();
    await outgoing({ type, body }).finally(() => (isRead = true));
    await others;
    expect(turns).toBeGreaterThan(10);
  });

  it('ends a string at a quote that no backslash escapes', async () => {
    const odd = String.raw`["\\\"{{text}}\\","{{text}}\"","\\\\"]`;
    expect(await bodyOf('application/json', odd)).toBe(String.raw`["\\\"a b\\","a b\"","\\\\"]`);
  });
});

describe('a large body', () => {
  const type = 'application/json';

  it('whose client has gone does not wait for its turn', async () => {
    const client = new AbortController();
    const turn = await threadShares.begin(holder);
    const waiting = outgoing({ type, body: `["${'x'.repeat(most)}"]`, signal: client.signal });
    const gone = new Error('the client has gone');
    client.abort(gone);
    await expect(waiting).rejects.toBe(gone);
    turn.end();
  });

  it('whose client goes while it is read is not read to its end', async () => {
    const client = new AbortController();
    const body = `[${'"",'.repeat(5 * most)}"{{text}}"]`;
    const reading = outgoing({ type, body, signal: client.signal }).then(() => 'read to its end');
    const gone = new Error('the client has gone');
    setImmediate(() => client.abort(gone));
    await expect(reading).rejects.toBe(gone);
  });

  it.each([
    ['strings of JSON', 'application/json', `[${'"",'.repeat(most)}"{{text}}"]`],
    ['pairs of a form', 'application/x-www-form-urlencoded', '{{&'.repeat(most)],
  ])('has the clock looked at for each 4 KiB, however many parts it has: %s', async (_name, kind, text) => {
    let looks = 0;
    const turn: Turn = {
      get isOver() {
        looks += 1;
        return false;
      },
      next: () => Promise.resolve(),
      end: () => undefined,
    };
    const template = new Template();
    await (kind === type
      ? piecesOfJson(template, text, turn)
      : piecesOfPairs(template, { place: 'body', text }, inForm, turn));
    expect(looks).toBeGreaterThan(text.length / 4_096 - 2);
    expect(looks).toBeLessThan(text.length / 4_096 + 2);
  });
});
