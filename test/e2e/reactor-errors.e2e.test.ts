import type { Token } from '@token-vault/contracts';
import { waitUntil } from '@token-vault/test-support';
import { beforeAll, describe, expect, it } from 'vitest';
import { type Problem, useReactors } from './invoked-reactors.ts';

const reactors = useReactors();
const { vault, receiver, number, makeApplication, makeFunction, react, messagesOf } = reactors;
const { manager } = vault;

describe('code that fails', () => {
  const classes = [
    ['AuthenticationError', 401, 'Authentication Failed'],
    ['AuthorizationError', 403, 'Forbidden'],
    ['BadRequestError', 400, 'Bad Request'],
    ['InvalidPaymentMethodError', 402, 'Invalid Payment Method'],
    ['InvalidReactorConfigurationError', 400, 'Invalid Reactor Configuration'],
    ['RateLimitError', 429, 'Rate Limit Exceeded'],
    ['ReactorRuntimeError', 500, 'Reactor Runtime Error'],
  ] as const;

  it('answers each class of error with its status, in the common format', async () => {
    const id = await makeFunction(
      `const errors = require('@token-vault/reactor');
       throw new errors[req.args.name]({ field: ['is wrong'] });`,
    );
    for (const [name, status, detail] of classes) {
      const answer = await react<Problem>(id, { args: { name } });
      expect({ name, status: answer.status, body: answer.body }).toMatchObject({
        name,
        status,
        body: { status, detail, errors: { field: ['is wrong'] } },
      });
      expect(answer.headers.get('content-type')).toBe('application/problem+json');
    }
    expect(await messagesOf(id)).toContain('Reactor failed');
  });

  it('may choose the whole response', async () => {
    const id = await makeFunction(
      `const { CustomHttpResponseError } = require('@token-vault/reactor');
       throw new CustomHttpResponseError({ status: 418, headers: { 'X-Tea': 'green' }, body: { short: true } });`,
    );
    const { status, headers, body } = await react<unknown>(id);
    expect({ status, body, tea: headers.get('x-tea') }).toEqual({
      status: 418,
      body: { short: true },
      tea: 'green',
    });
  });

  it('may answer a text unchanged, with headers that control no proxy', async () => {
    const id = await makeFunction(
      `const { CustomHttpResponseError } = require('@token-vault/reactor');
       const headers = { 'Content-Type': 'text/html', 'X-Accel-Redirect': '/metrics', 'Set-Cookie': 'a=b' };
       throw new CustomHttpResponseError({ status: 200, headers, body: '<p>' + req.args.n + '</p>' });`,
    );
    const { status, headers, text } = await react<unknown>(id, { args: { n: 1 } });
    expect({ status, text }).toEqual({ status: 200, text: '<p>1</p>' });
    expect(headers.get('content-type')).toBe('text/html');
    expect(headers.get('content-security-policy')).toBe('sandbox');
    expect([headers.get('x-accel-redirect'), headers.get('set-cookie')]).toEqual([null, null]);
  });

  it('answers 500 to any other thrown value, without the content of the error', async () => {
    const id = await makeFunction(
      'throw Object.assign(new TypeError("no such thing"), { card: req.args.card });',
    );
    const { status, body, text } = await react<Problem>(id, { args: { card: `{{ ${reactors.cardId} }}` } });
    expect({ status, body }).toMatchObject({ status: 500, body: { detail: 'Reactor Runtime Error' } });
    expect(text).not.toContain(number);
  });

  it('is stopped when it never ends, and the vault continues', async () => {
    const id = await makeFunction('for (;;) {}');
    const quick = await makeFunction('return { raw: 1 };');
    const [endless, ...others] = await Promise.all([
      react<Problem>(id),
      ...Array.from({ length: 3 }, () => react(quick)),
    ]);
    expect(endless).toMatchObject({ status: 500 });
    expect(JSON.stringify(endless.body.errors)).toContain('timeout');
    expect(others.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect((await react(quick)).body).toEqual({ raw: 1 });
  });

  it('answers 400 when its output cannot be tokenized', async () => {
    const id = await makeFunction('return { tokenize: { card: { type: "card", data: { number: "1" } } } };');
    expect((await react<Problem>(id)).status).toBe(400);
    const misspelt = await makeFunction(
      'return { tokenize: { type: "token", data: 1, expire_at: "2033-01-01" } };',
    );
    expect((await react<Problem>(misspelt)).status).toBe(400);
  });

  it('answers 422 to code that does not compile', async () => {
    const body = { name: 'x', configuration: {}, code: 'module.exports = function () {\n  return ) };' };
    const { body: problem } = await manager.expect<Problem>(422, 'POST', '/reactors', { body });
    expect(problem.detail).toContain('line 2');
    await manager.expect(422, 'POST', '/reactors', { body: { ...body, code: 'module.exports = 5' } });
  });
});

describe('an invocation that is refused', () => {
  let id: string;
  beforeAll(async () => {
    id = await makeFunction('return { raw: Object.keys(req.args).length };');
  });

  it('accepts 100 tokens and no more', async () => {
    const made = await Promise.all(
      Array.from({ length: 101 }, (_, index) =>
        reactors.backend.client.expect<Token>(201, 'POST', '/tokens', {
          body: { type: 'token', data: index },
        }),
      ),
    );
    const args = Object.fromEntries(made.map(({ body }, index) => [`a${index}`, `{{ ${body.id} }}`]));
    const { a100: _last, ...hundred } = args;
    expect((await react(id, { args: hundred })).body).toEqual({ raw: 100 });
    expect((await react(id, { args })).status).toBe(400);
  });

  it('names an unknown token (400) or breaks the grammar (400, naming the argument)', async () => {
    const unknown = await react<Problem>(id, { args: { a: '{{ no-such-token }}' } });
    expect(unknown).toMatchObject({ status: 400, body: { errors: { 'args.a': [expect.any(String)] } } });
    const broken = await react<Problem>(id, {
      args: { a: { b: [`{{ ${reactors.cardId} | no_such_filter }}`] } },
    });
    expect(broken.status).toBe(400);
    expect(Object.keys(broken.body.errors)).toEqual(['args.a.b.0']);
  });

  it('needs token:use for the container of every token (403)', async () => {
    const rule = { priority: 1, container: '/general/', transform: 'reveal', permissions: ['token:use'] };
    const { client } = await makeApplication({ permissions: [], rules: [rule] });
    const general = (
      await reactors.backend.client.expect<Token>(201, 'POST', '/tokens', {
        body: { type: 'token', data: 'x' },
      })
    ).body;
    expect((await react(id, { args: { a: `{{ ${general.id} }}` } }, client)).status).toBe(200);
    const args = { a: `{{ ${general.id} }}`, b: `{{ ${reactors.cardId} }}` };
    expect((await react(id, { args }, client)).status).toBe(403);
    expect((await react(id, { args }, manager)).status).toBe(403);
    const { client: other } = await makeApplication({ permissions: ['token:read'] });
    expect((await react(id, {}, other)).status).toBe(403);
  });

  it('names no reactor (404)', async () => {
    expect((await react('00000000-0000-4000-8000-000000000000')).status).toBe(404);
    const gone = await makeFunction('return {};');
    await manager.expect(204, 'DELETE', `/reactors/${gone}`);
    expect((await react(gone)).status).toBe(404);
  });

  it('has a time limit without a callback, one that is out of range, or a callback that is no URL', async () => {
    expect((await react(id, { timeout_ms: 20_000 })).status).toBe(400);
    expect((await react(id, { callback_url: receiver.url, timeout_ms: 9_999 })).status).toBe(400);
    expect((await react(id, { callback_url: 'ftp://127.0.0.1/x' })).status).toBe(400);
    expect((await react(id, { callback_url: 'nowhere' })).status).toBe(400);
    expect((await react(id, { callback_url: receiver.url, args: { a: '{{ no-such }}' } })).status).toBe(400);
    expect(receiver.deliveries).toEqual([]);
  });
});

describe('arguments of more than 1 MiB', () => {
  const tooLarge = 'must be at most 1 MiB as JSON';
  const delivered = () => ({ callback_url: receiver.url, timeout_ms: 20_000 });
  const detokenized = [`The detokenized arguments are too large: they ${tooLarge}.`];
  const messagesOfArguments = ({ errors }: Problem) => Object.values(errors).flat();
  let id: string;
  /** Tokens that have more together. */
  let ids: string[];
  const references = () => Object.fromEntries(ids.map((token) => [token, `{{ ${token} }}`]));
  /** The numbers are shorter in the request than as JSON: the request has less than 1 MiB. */
  const reactToNumbers = (more: object = {}) => {
    const body = { args: { text: 'x'.repeat(1_000_000), numbers: [0] }, ...more };
    const text = JSON.stringify(body).replace('[0]', `[${'1e15,'.repeat(5_000)}0]`);
    return reactors.backend.client.request<Problem>('POST', `/reactors/${id}/react`, { text });
  };

  beforeAll(async () => {
    id = await makeFunction('return { raw: Object.keys(req.args).length };');
    const body = { type: 'token', data: 'x'.repeat(400_000) };
    const create = () => reactors.backend.client.expect<Token>(201, 'POST', '/tokens', { body });
    ids = (await Promise.all([create(), create(), create()])).map((made) => made.body.id);
  });

  it('are 400', async () => {
    expect(await reactToNumbers()).toMatchObject({
      status: 400,
      body: { errors: { args: [tooLarge] } },
    });
    const { status, body } = await react<Problem>(id, { args: references() });
    expect([status, messagesOfArguments(body)]).toEqual([400, detokenized]);
  });

  it('are 400 for an asynchronous run: at once, or delivered when its tokens give them', async () => {
    const refused = await reactToNumbers(delivered());
    expect(refused).toMatchObject({ status: 400, body: { errors: { args: [tooLarge] } } });
    const before = receiver.deliveries.length;
    expect(await react(id, { args: references(), ...delivered() })).toMatchObject({ status: 202 });
    await waitUntil(() => receiver.deliveries.length > before, { what: 'the delivery' });
    const { text } = receiver.deliveries[before] ?? { text: '' };
    const problem = JSON.parse(text) as Problem;
    expect([problem.status, messagesOfArguments(problem)]).toEqual([400, detokenized]);
  });

  it('are 400 to code that gives them to another reactor', async () => {
    const outer = await makeFunction(
      `const refusal = (args) => req.svc.reactors.react('${id}', { args }).catch((error) =>
         [error.name, error.status, Object.values(error.problem.errors)]);
       const references = Object.fromEntries(req.args.ids.map((id) => [id, '{{ ' + id + ' }}']));
       return { raw: [await refusal({ a: 'x'.repeat(1100000) }), await refusal(references)] };`,
      { application: reactors.backend },
    );
    const { body } = await react(outer, { args: { ids } });
    const refused = (...messages: string[]) => ['ServiceError', 400, messages.map((each) => [each])];
    expect(body).toEqual({ raw: [refused(tooLarge), refused(...detokenized)] });
  });
});
