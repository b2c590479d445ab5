import type { Application, LogEntry, Pagination, Reactor, Token } from '@token-vault/contracts';
import {
  type Answer,
  cardNumber,
  cardToken,
  type Client,
  createDataDirectory,
  plainApplication,
  removeDataDirectory,
  type StandaloneProcess,
  startStandaloneProcess,
  waitUntil,
} from '@token-vault/test-support';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isSigned, type Receiver, startReceiver } from './receiver.ts';

interface Problem {
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly errors: Readonly<Record<string, readonly string[]>>;
}
interface ReactResponse {
  readonly raw?: unknown;
  readonly tokens?: unknown;
}

const env = { VAULT_EGRESS_ALLOW: '127.0.0.0/8' };
const number = cardNumber();

let dataDir: string;
let vault: StandaloneProcess;
let manager: Client;
let backend: Client;
let backendId: string;
let receiver: Receiver;
let card: Token;

async function makeApplication(overrides: object = {}): Promise<{ id: string; client: Client }> {
  const permissions = ['token:create', 'token:read', 'token:use'];
  const body = plainApplication({ permissions, ...overrides });
  const { id, key } = (await manager.expect<Application>(201, 'POST', '/applications', { body })).body;
  return { id, client: manager.withKey(key ?? '') };
}

async function makeReactor(code: string, overrides: object = {}): Promise<string> {
  const body = { name: 'r', configuration: {}, code, ...overrides };
  return (await manager.expect<Reactor>(201, 'POST', '/reactors', { body })).body.id;
}

/** A reactor whose function has this body. */
const makeFunction = (body: string, overrides: object = {}): Promise<string> =>
  makeReactor(`module.exports = async function (req) {\n${body}\n};`, overrides);

const react = <Body = ReactResponse>(
  id: string,
  body: object = {},
  client = backend,
): Promise<Answer<Body>> => client.request<Body>('POST', `/reactors/${id}/react`, { body });

const logOf = async (id: string): Promise<readonly LogEntry[]> => {
  const path = `/logs?entity_id=${id}&size=100`;
  const { body } = await manager.expect<{ pagination: Pagination; data: LogEntry[] }>(200, 'GET', path);
  return body.data;
};
const messagesOf = async (id: string): Promise<readonly string[]> =>
  (await logOf(id)).map(({ message }) => message).reverse();

beforeAll(async () => {
  receiver = await startReceiver();
  dataDir = await createDataDirectory();
  vault = await startStandaloneProcess({ dataDir, env });
  manager = vault.client();
  ({ id: backendId, client: backend } = await makeApplication());
  card = (await backend.expect<Token>(201, 'POST', '/tokens', { body: cardToken(number) })).body;
});
afterAll(async () => {
  await receiver.close();
  await removeDataDirectory(dataDir);
});

describe('a reactor that is invoked', () => {
  it('sees plaintext of tokens, plain arguments and its configuration', async () => {
    const id = await makeFunction(
      'return { raw: { args: req.args, conf: req.configuration, svc: req.svc } };',
      {
        configuration: { KEY: 'value' },
      },
    );
    const args = {
      card: `{{ ${card.id} }}`,
      number: `{{ token: ${card.id} | json: '$.data.number' }}`,
      text: `number {{ ${card.id} | json: '$.number' | last4 }}!`,
      plain: [1, null, { deep: 'x' }],
    };
    const { status, body } = await react(id, { args });
    expect({ status, body }).toEqual({
      status: 200,
      body: {
        raw: {
          args: {
            card: { number, expiration_month: 12, expiration_year: 2040, cvc: '737' },
            number,
            text: `number ${number.slice(-4)}!`,
            plain: [1, null, { deep: 'x' }],
          },
          conf: { KEY: 'value' },
          svc: null,
        },
      },
    });
  });

  it('has its output tokenized, once, and shown as masked', async () => {
    const id = await makeFunction(
      'return { tokenize: { plain: "secret", card: { type: "card", data: req.args.card } } };',
    );
    const { status, body } = await react(id, { args: { card: `{{ ${card.id} }}` } });
    expect(status).toBe(200);
    const { plain, card: made } = body.tokens as { plain: string; card: Token };
    expect(made).toMatchObject({ type: 'card', data: { number: `XXXXXXXXXXXX${number.slice(-4)}` } });
    const stored = await backend.expect<Token>(200, 'GET', `/tokens/${plain}`);
    expect(stored.body).toMatchObject({ id: plain, created_by: backendId });
    expect(body).not.toHaveProperty('raw');
  });

  it('acts on the vault as its application, with its permissions and no more', async () => {
    const id = await makeFunction(
      `const made = await req.svc.tokens.create({ type: 'token', data: 'by code' });
       const found = await req.svc.tokens.retrieve(made.id);
       const refused = await req.svc.tokens.delete(made.id).catch((error) => [error.name, error.status]);
       return { raw: { made, found: found.id, refused } };`,
      { application: { id: backendId } },
    );
    const { status, body } = await react(id);
    expect(status).toBe(200);
    const { made, found, refused } = body.raw as { made: Token; found: string; refused: unknown };
    expect(refused).toEqual(['ServiceError', 403]);
    expect(found).toBe(made.id);
    expect(await messagesOf(made.id)).toEqual(['Token created', 'Token retrieved', 'Token access denied']);
  });

  it('creates, fills in and deletes many tokens, each by the rules of its application', async () => {
    const id = await makeFunction(
      `const { tokens, detokenize } = req.svc;
       const { results } = await tokens.createMany({ tokens: [{ type: 'token', data: 'many', mask: '{{ data | slice: 0, 2 }}' }, { type: 'token' }] });
       const [{ token }, invalid] = results;
       const filled = await detokenize({ at: '{{ ' + token.id + ' }}', gone: '{{ never-made }}' });
       const refused = await tokens.deleteMany({ ids: [token.id] }).catch((error) => [error.name, error.status]);
       return { raw: { id: token.id, invalid: invalid.status, filled, refused } };`,
      { application: { id: backendId } },
    );
    const { status, body } = await react(id);
    expect(status).toBe(200);
    const raw = body.raw as { id: string; filled: { data: unknown } };
    const { data } = (await backend.expect<Token>(200, 'GET', `/tokens/${raw.id}`)).body;
    expect(data).toBe('ma');
    expect(raw).toMatchObject({
      invalid: 400,
      filled: { data: { at: data, gone: null }, not_opened: [{ id: 'never-made', reason: 'not-found' }] },
      refused: ['ServiceError', 403],
    });
  });

  it('may invoke reactors, but not without end', async () => {
    const inner = await makeFunction('return { raw: req.args.n + 1 };');
    const application = { id: backendId };
    const outer = await makeFunction(
      `return { raw: await req.svc.reactors.react('${inner}', { args: { n: 1 } }) };`,
      { application },
    );
    expect((await react(outer)).body).toEqual({ raw: { raw: 2 } });
    const itself = await makeFunction(
      'return { raw: await req.svc.reactors.react(req.args.id, { args: req.args }) };',
      { application },
    );
    const endless = await react<Problem>(itself, { args: { id: itself } });
    expect(endless).toMatchObject({ status: 500, body: { detail: 'Reactor Runtime Error' } });
    expect(endless.text).not.toContain('timeout');
  });

  it('is in the log, with each token it used, and its plaintext is nowhere in it', async () => {
    const used = (await backend.expect<Token>(201, 'POST', '/tokens', { body: cardToken(cardNumber()) }))
      .body;
    const id = await makeFunction('return {};');
    await react(id, { args: { a: `{{ ${used.id} }}`, b: `{{ ${used.id} }}` } });
    expect(await messagesOf(id)).toEqual(['Reactor created', 'Reactor invoked', 'Reactor succeeded']);
    expect(await messagesOf(used.id)).toEqual(['Token created', 'Token used']);
    expect((await logOf(used.id))[0]).toMatchObject({ actor_id: backendId, operation: 'use' });
  });

  it('runs as often as it was asked for when many ask at once', async () => {
    const id = await makeFunction('return { raw: req.args.n };');
    const numbers = Array.from({ length: 24 }, (_, n) => n);
    const answers = await Promise.all(numbers.map((n) => react(id, { args: { n } })));
    expect(answers.map(({ body }) => body.raw)).toEqual(numbers);
  });
});

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
    const { status, body, text } = await react<Problem>(id, { args: { card: `{{ ${card.id} }}` } });
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
        backend.expect<Token>(201, 'POST', '/tokens', { body: { type: 'token', data: index } }),
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
    const broken = await react<Problem>(id, { args: { a: { b: [`{{ ${card.id} | no_such_filter }}`] } } });
    expect(broken.status).toBe(400);
    expect(Object.keys(broken.body.errors)).toEqual(['args.a.b.0']);
  });

  it('needs token:use for the container of every token (403)', async () => {
    const rule = { priority: 1, container: '/general/', transform: 'reveal', permissions: ['token:use'] };
    const { client } = await makeApplication({ permissions: [], rules: [rule] });
    const general = (
      await backend.expect<Token>(201, 'POST', '/tokens', { body: { type: 'token', data: 'x' } })
    ).body;
    expect((await react(id, { args: { a: `{{ ${general.id} }}` } }, client)).status).toBe(200);
    const args = { a: `{{ ${general.id} }}`, b: `{{ ${card.id} }}` };
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

describe('an asynchronous invocation', () => {
  const deliveriesOf = (traceId: string) =>
    receiver.deliveries.filter(({ headers }) => headers['svc-trace-id'] === traceId);

  async function invoke(id: string, args: object = {}) {
    const answer = await react(id, { args, callback_url: receiver.url, timeout_ms: 20_000 });
    expect({ status: answer.status, text: answer.text }).toEqual({ status: 202, text: '' });
    return answer.headers.get('svc-trace-id') ?? '';
  }

  async function delivered(traceId: string, count: number, timeoutMs = 20_000) {
    const what = `delivery ${count}`;
    await waitUntil(() => deliveriesOf(traceId).length >= count, { timeoutMs, what });
    return deliveriesOf(traceId);
  }

  it('is answered at once and delivered, signed', async () => {
    const id = await makeFunction('return { raw: req.args.card.number.length };');
    const [delivery] = await delivered(await invoke(id, { card: `{{ ${card.id} }}` }), 1);
    expect(delivery?.text).toBe('{"raw":16}');
    const { secret } = (await manager.expect<{ secret: string }>(200, 'GET', '/tenants/self/webhook-secret'))
      .body;
    expect(delivery && isSigned(delivery, secret)).toBe(true);
    await waitUntil(async () => (await messagesOf(id)).includes('Reactor webhook delivered'));
  });

  it('delivers the error of a run that failed', async () => {
    const id = await makeFunction(
      `const { BadRequestError } = require('@token-vault/reactor'); throw new BadRequestError('wrong');`,
    );
    const [delivery] = await delivered(await invoke(id), 1);
    expect(JSON.parse(delivery?.text ?? '')).toMatchObject({
      status: 400,
      detail: 'Bad Request',
      errors: { error: ['wrong'] },
    });
  });

  it('is tried again when the receiver fails or redirects, also after the vault was killed', async () => {
    const id = await makeFunction('return { raw: "kept" };');
    receiver.plan(500, 302);
    const traceId = await invoke(id);
    await delivered(traceId, 2);
    await waitUntil(async () => {
      const failed = (await messagesOf(id)).filter((message) => message === 'Reactor webhook attempt failed');
      return failed.length === 2;
    });
    await vault.kill();
    vault = await startStandaloneProcess({ dataDir, env });
    manager = vault.client();
    const deliveries = await delivered(traceId, 3, 40_000);
    expect(deliveries.map(({ text }) => text)).toEqual([
      '{"raw":"kept"}',
      '{"raw":"kept"}',
      '{"raw":"kept"}',
    ]);
    expect(new Set(deliveries.map(({ headers }) => headers['webhook-id'])).size).toBe(1);
    await waitUntil(async () => (await messagesOf(id)).includes('Reactor webhook delivered'));
    expect(await messagesOf(id)).toEqual([
      'Reactor created',
      'Reactor invoked',
      'Reactor succeeded',
      'Reactor webhook attempt failed',
      'Reactor webhook attempt failed',
      'Reactor webhook delivered',
    ]);
  });
});
