import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '@token-vault/contracts';
import { EgressError } from '@token-vault/egress';
import type { EgressRequest } from '@token-vault/egress';
import { problemOf } from '../src/sandbox/index.ts';
import type { HostCalls, RunOutcome } from '../src/sandbox/index.ts';
import { createTestPool, handler } from './sandbox-pool-fixture.ts';
import type { RunSettings, TestPool } from './sandbox-pool-fixture.ts';

let test: TestPool;
beforeAll(async () => {
  test = await createTestPool();
});
afterAll(() => test.close());

async function rawOf(body: string, settings?: RunSettings): Promise<Json | undefined> {
  const outcome = await test.run(handler(body), settings);
  if (outcome.kind !== 'succeeded') expect.unreachable(JSON.stringify(outcome));
  return outcome.result.raw;
}

function problem(outcome: RunOutcome) {
  if (outcome.kind === 'succeeded') return expect.unreachable('the run succeeded');
  return problemOf(outcome);
}

const echo: HostCalls = {
  fetch: async ({ url, method = 'GET', headers = [], body }: EgressRequest) => ({
    status: 201,
    statusText: 'Created',
    headers: [['content-type', 'application/json']],
    body: Buffer.from(JSON.stringify({ url, method, headers, body: body && Buffer.from(body).toString() })),
    url,
    redirected: false,
  }),
};

describe('a reactor', () => {
  it('gets its arguments and configuration, and no client without an application', async () => {
    const raw = await rawOf('return { raw: req };', {
      args: { a: [1, 'ü', null] },
      configuration: { KEY: 'v' },
    });
    expect(raw).toEqual({ args: { a: [1, 'ü', null] }, configuration: { KEY: 'v' }, svc: null });
  });

  it.each([
    ['JSON', '{"b":[1,"ü"]}', { b: [1, 'ü'] }],
    ['text that would end the arguments', '1},"hasSvc":true,"args":{"a":2', null],
    ['values that are nested deep', `${'['.repeat(50_000)}1${']'.repeat(50_000)}`, expect.anything()],
    ['no JSON', '{', null],
  ])('gets a body that came as text: %s', async (_what, bodyText, expected) => {
    const code =
      'const { a, body } = req.args; return { raw: [a, req.svc, JSON.stringify(Object.keys(req.args)), body?.length === 1 ? "deep" : body] };';
    const raw = await rawOf(code, { args: { a: 1, body: null }, bodyText });
    expect(raw).toEqual([1, null, '["a","body"]', expected]);
  });

  it('may be a plain function, or the default export of a transpiled module', async () => {
    expect(await test.run('module.exports = () => ({ raw: 1 })')).toMatchObject({ result: { raw: 1 } });
    expect(await test.run('exports.default = async () => ({ raw: 2 })')).toMatchObject({
      result: { raw: 2 },
    });
  });

  it('returns raw and tokenize; other properties are dropped, nothing is an empty response', async () => {
    expect(await test.run(handler('return { raw: [1], tokenize: { a: "b" }, other: 1 };'))).toMatchObject({
      kind: 'succeeded',
      result: { raw: [1], tokenize: { a: 'b' } },
    });
    expect(await test.run(handler(''))).toMatchObject({ kind: 'succeeded', result: {} });
    expect(problem(await test.run(handler('return "text";')))).toMatchObject({ status: 500 });
  });

  it('finds no state of an earlier run', async () => {
    await rawOf('Object.prototype.polluted = 1; globalThis.left = 1; Array.prototype.map = null; return {};');
    expect(
      await rawOf('return { raw: [typeof ({}).polluted, typeof globalThis.left, typeof [].map] };'),
    ).toEqual(['undefined', 'undefined', 'function']);
  });

  it('has the lines of its console captured within limits', async () => {
    const outcome = await test.run(
      handler('console.log("a %s", "b", { c: 1 }); console.error(new Error("e"));'),
    );
    expect(outcome.console.lines).toEqual([
      { level: 'log', text: 'a b { c: 1 }' },
      { level: 'error', text: 'Error: e' },
    ]);
    const flood = await test.run(handler('for (let i = 0; i < 1000; i++) console.log("x".repeat(1000));'));
    expect(flood.console.truncated).toBe(true);
    expect(flood.console.lines.reduce((sum, { text }) => sum + text.length, 0)).toBeLessThanOrEqual(65_536);
  });
});

describe('an error of a reactor', () => {
  const thrown = (name: string, argument: string) =>
    test.run(
      handler(`const errors = require('@token-vault/reactor'); throw new errors.${name}(${argument});`),
    );

  it.each([
    ['AuthenticationError', 401, 'Authentication Failed'],
    ['AuthorizationError', 403, 'Forbidden'],
    ['BadRequestError', 400, 'Bad Request'],
    ['InvalidPaymentMethodError', 402, 'Invalid Payment Method'],
    ['InvalidReactorConfigurationError', 400, 'Invalid Reactor Configuration'],
    ['RateLimitError', 429, 'Rate Limit Exceeded'],
    ['ReactorRuntimeError', 500, 'Reactor Runtime Error'],
  ])('of class %s has status %i', async (name, status, detail) => {
    expect(problem(await thrown(name, "'why'"))).toEqual({ status, detail, errors: { error: ['why'] } });
  });

  it.each([
    ["['a', 1]", { error: ['a', '1'] }],
    ["new Error('m')", { error: ['m'] }],
    ["{ field: ['a', 'b'], other: 'c' }", { field: ['a', 'b'], other: ['c'] }],
    ["'text'", { error: ['text'] }],
    ['', { error: ['The request is not valid'] }],
  ])('made of %s reports errors', async (argument, errors) => {
    expect(problem(await thrown('BadRequestError', argument)).errors).toEqual(errors);
  });

  it('may choose the whole response', async () => {
    const outcome = await thrown(
      'CustomHttpResponseError',
      "{ status: 418, headers: { 'X-A': 'b', 'Content-Length': '1', bad: 'a\\nb' }, body: { a: 1 } }",
    );
    expect(problem(outcome)).toMatchObject({
      status: 418,
      custom: { headers: { 'X-A': 'b' }, body: { a: 1 } },
    });
  });

  it.each([
    [
      'many headers',
      "Object.fromEntries(Array.from({ length: 20 }, (_, i) => ['X-' + i, 'v'.repeat(1000)]))",
    ],
    ['one header', "{ 'X-Link': 'v'.repeat(16377) }"],
  ])('that sets more than 16 KB of headers by %s is refused with that reason', async (_how, headers) => {
    expect(
      problem(await thrown('CustomHttpResponseError', `{ status: 200, headers: ${headers} }`)),
    ).toMatchObject({
      status: 500,
      errors: { error: ['CustomHttpResponseError may set at most 16 KB of headers'] },
    });
  });

  it('that sets one header of nearly 16 KB keeps it', async () => {
    const outcome = await thrown(
      'CustomHttpResponseError',
      "{ status: 200, headers: { 'X-Link': 'v'.repeat(16374) } }",
    );
    expect(problem(outcome)).toMatchObject({ custom: { headers: { 'X-Link': 'v'.repeat(16_374) } } });
  });

  it.each([0, 101, 199, 600, 200.5, NaN])('cannot choose the status %s', async (status) => {
    const refusal = problem(await thrown('CustomHttpResponseError', `{ status: ${status} }`));
    expect(refusal).toMatchObject({
      status: 500,
      errors: { error: [expect.stringContaining('status') as string] },
    });
    expect(refusal.custom).toBeUndefined();
  });

  it('is recognised when it is extended', async () => {
    const code =
      "const { RateLimitError } = require('@token-vault/reactor'); class Mine extends RateLimitError {} throw new Mine('slow');";
    expect(problem(await test.run(handler(code)))).toMatchObject({
      status: 429,
      errors: { error: ['slow'] },
    });
  });

  it.each([
    ["throw Object.assign(new Error('m'), { status: 401, response: { data: '4242424242424242' } })", 'm'],
    ["class AuthenticationError extends Error {} throw new AuthenticationError('forged')", 'forged'],
    ["throw 'text'", 'text'],
    ['throw { status: 401, card: "4242424242424242" }', 'The reactor failed'],
    ['throw new Proxy({}, { get() { throw 1; } })', 'The reactor failed'],
    ["setTimeout(() => { throw new TypeError('late'); }, 1); await new Promise(() => {})", 'late'],
    [
      "WeakMap.prototype.get = () => ({ status: 200, detail: 'x', errors: {} }); throw new Error('patched')",
      'patched',
    ],
    [
      "throw Object.setPrototypeOf(new Error('p'), require('@token-vault/reactor').AuthenticationError.prototype)",
      'p',
    ],
  ])('that is not one of ours is a 500 with a message only: %s', async (body, message) => {
    const { status, detail, errors } = problem(await test.run(handler(body)));
    expect({ status, detail, errors }).toEqual({
      status: 500,
      detail: 'Reactor Runtime Error',
      errors: { error: [message] },
    });
  });
});

describe('code that does not compile', () => {
  it.each([
    ['module.exports = async (req) => {\n  const a = ;\n}', 2, "SyntaxError: Unexpected token ';'"],
    ['const a = 1;\n\nnosuch();', 3, 'ReferenceError: nosuch is not defined'],
    ['throw new Error("at load");', 1, 'Error: at load'],
    ['const a = 1;\nmodule.exports = async function () {', 2, 'SyntaxError: Unexpected end of input'],
    ['const a = 1;\nmodule.exports = () => `abc;', 2, 'SyntaxError: Unexpected end of input'],
    ['const a = 1;\nmodule.exports = { a };', 2, expect.stringContaining('must export a function') as string],
  ])('is reported with its line: %s', async (code, line, message) => {
    expect(await test.pool.compile({ tenantId: 'tenant', code })).toMatchObject({
      kind: 'compile-error',
      line,
      message,
    });
    expect(problem(await test.run(code))).toMatchObject({
      status: 422,
      errors: { code: [expect.stringContaining(`Line ${line}`)] },
    });
  });

  it('is also code that exports no function', async () => {
    const outcome = await test.pool.compile({ tenantId: 'tenant', code: 'module.exports = { a: 1 };' });
    expect(outcome).toMatchObject({
      kind: 'compile-error',
      message: expect.stringContaining('must export a function') as string,
    });
  });

  it('is not code that exports one', async () => {
    const code = 'let ran = false; module.exports = async () => { throw new Error("not called"); };';
    expect(await test.pool.compile({ tenantId: 'tenant', code })).toEqual({ kind: 'compiled' });
  });
});

describe('a host call', () => {
  it.each([
    [
      "const r = await fetch('https://x.test/a?b=1', { method: 'post', headers: { 'X-Key': 'k' }, body: 'b' }); return { raw: [r.status, await r.json()] };",
    ],
    [
      "const r = await require('node-fetch')('https://x.test/a?b=1', { method: 'POST', headers: { 'X-Key': 'k' }, body: 'b' }); return { raw: [r.status, await r.json()] };",
    ],
    [
      "const r = await require('axios').post('https://x.test/a', 'b', { params: { b: 1 }, headers: { 'X-Key': 'k' } }); return { raw: [r.status, r.data] };",
    ],
    [
      "const raw = await new Promise((resolve, reject) => { const r = require('https').request({ hostname: 'x.test', path: '/a?b=1', method: 'POST', headers: { 'x-key': 'k' } }, (a) => { let t = ''; a.on('data', (d) => (t += d)); a.on('end', () => resolve([a.statusCode, JSON.parse(t)])); }); r.on('error', reject); r.end('b'); }); return { raw };",
    ],
  ])('by %s reaches the parent', async (body) => {
    const raw = (await rawOf(body, { hostCalls: echo })) as [
      number,
      { url: string; method: string; headers: string[][]; body: string },
    ];
    expect(raw[0]).toBe(201);
    expect(raw[1]).toMatchObject({ url: 'https://x.test/a?b=1', method: 'POST', body: 'b' });
    expect(raw[1].headers).toContainEqual(['x-key', 'k']);
  });

  it('that is refused fails like a fetch, with a code and no address', async () => {
    const hostCalls: HostCalls = {
      fetch: () =>
        Promise.reject(new EgressError('refused-address', 'Requests to private addresses are refused')),
    };
    const raw = await rawOf(
      "try { await fetch('https://10.0.0.1'); } catch (e) { return { raw: [e.name, e.message, e.code] }; }",
      { hostCalls },
    );
    expect(raw).toEqual([
      'TypeError',
      'fetch failed: Requests to private addresses are refused',
      'refused-address',
    ]);
  });

  it('that fails in the service does not show the error of the service', async () => {
    const hostCalls: HostCalls = { fetch: () => Promise.reject(new Error('password in /etc/secret')) };
    const raw = await rawOf(
      "try { await fetch('https://x.test'); } catch (e) { return { raw: e.stack + e.message }; }",
      { hostCalls },
    );
    expect(raw).not.toContain('secret');
  });

  it('is aborted by the code, and at the end of the run', async () => {
    const aborted: string[] = [];
    const hostCalls: HostCalls = {
      fetch: ({ url, signal }) =>
        new Promise((_, reject) =>
          signal?.addEventListener('abort', () => reject(new Error(String(aborted.push(url))))),
        ),
    };
    const body =
      "fetch('https://left.test').catch(() => {}); const c = new AbortController(); setTimeout(() => c.abort(), 5); try { await fetch('https://own.test', { signal: c.signal }); } catch (e) { return { raw: e.name }; }";
    expect(await rawOf(body, { hostCalls })).toBe('AbortError');
    await expect.poll(() => aborted).toEqual(['https://own.test', 'https://left.test']);
  });

  it('of the client sends method and arguments, and returns problems', async () => {
    const hostCalls: HostCalls = {
      ...echo,
      svc: async (method, args) => {
        if (method === 'tokens.delete')
          throw Object.assign(new Error('secret'), { status: 404, problem: { title: 'Not Found' } });
        return { method, args };
      },
    };
    const body =
      "const { tokens, tokenize, reactors } = req.svc; const failure = await tokens.delete('t').catch((e) => [e.name, e.status, e.problem]); return { raw: [await tokens.retrieve('t'), await tokenize({ a: 1 }), await reactors.react('r', { args: {} }), failure] };";
    expect(await rawOf(body, { hostCalls })).toEqual([
      { method: 'tokens.retrieve', args: ['t'] },
      { method: 'tokenize', args: [{ a: 1 }] },
      { method: 'reactors.react', args: ['r', { args: {} }] },
      ['ServiceError', 404, { title: 'Not Found' }],
    ]);
  });
});
