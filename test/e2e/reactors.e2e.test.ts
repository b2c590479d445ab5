import type { Token } from '@token-vault/contracts';
import { cardNumber, cardToken, waitUntil } from '@token-vault/test-support';
import { describe, expect, it } from 'vitest';
import { type Problem, useReactors } from './invoked-reactors.ts';
import { isSigned } from './receiver.ts';

const reactors = useReactors();
const { vault, receiver, number, makeFunction, react, logOf, messagesOf } = reactors;
const { manager } = vault;

describe('a reactor that is invoked', () => {
  it('sees plaintext of tokens, plain arguments and its configuration', async () => {
    const id = await makeFunction(
      'return { raw: { args: req.args, conf: req.configuration, svc: req.svc } };',
      {
        configuration: { KEY: 'value' },
      },
    );
    const args = {
      card: `{{ ${reactors.cardId} }}`,
      number: `{{ token: ${reactors.cardId} | json: '$.data.number' }}`,
      text: `number {{ ${reactors.cardId} | json: '$.number' | last4 }}!`,
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
    const { status, body } = await react(id, { args: { card: `{{ ${reactors.cardId} }}` } });
    expect(status).toBe(200);
    const { plain, card: made } = body.tokens as { plain: string; card: Token };
    expect(made).toMatchObject({ type: 'card', data: { number: `XXXXXXXXXXXX${number.slice(-4)}` } });
    const stored = await reactors.backend.client.expect<Token>(200, 'GET', `/tokens/${plain}`);
    expect(stored.body).toMatchObject({ id: plain, created_by: reactors.backend.id });
    expect(body).not.toHaveProperty('raw');
  });

  it('acts on the vault as its application, with its permissions and no more', async () => {
    const id = await makeFunction(
      `const made = await req.svc.tokens.create({ type: 'token', data: 'by code' });
       const found = await req.svc.tokens.retrieve(made.id);
       const refused = await req.svc.tokens.delete(made.id).catch((error) => [error.name, error.status]);
       return { raw: { made, found: found.id, refused } };`,
      { application: reactors.backend },
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
      { application: reactors.backend },
    );
    const { status, body } = await react(id);
    expect(status).toBe(200);
    const raw = body.raw as { id: string; filled: { data: unknown } };
    const { data } = (await reactors.backend.client.expect<Token>(200, 'GET', `/tokens/${raw.id}`)).body;
    expect(data).toBe('ma');
    expect(raw).toMatchObject({
      invalid: 400,
      filled: { data: { at: data, gone: null }, not_opened: [{ id: 'never-made', reason: 'not-found' }] },
      refused: ['ServiceError', 403],
    });
  });

  it('may invoke reactors, but not without end', async () => {
    const inner = await makeFunction('return { raw: req.args.n + 1 };');
    const application = reactors.backend;
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
    const used = (
      await reactors.backend.client.expect<Token>(201, 'POST', '/tokens', { body: cardToken(cardNumber()) })
    ).body;
    const id = await makeFunction('return {};');
    await react(id, { args: { a: `{{ ${used.id} }}`, b: `{{ ${used.id} }}` } });
    expect(await messagesOf(id)).toEqual(['Reactor created', 'Reactor invoked', 'Reactor succeeded']);
    expect(await messagesOf(used.id)).toEqual(['Token created', 'Token used']);
    expect((await logOf(used.id))[0]).toMatchObject({ actor_id: reactors.backend.id, operation: 'use' });
  });

  it('runs as often as it was asked for when many ask at once', async () => {
    const id = await makeFunction('return { raw: req.args.n };');
    const numbers = Array.from({ length: 24 }, (_, n) => n);
    const answers = await Promise.all(numbers.map((n) => react(id, { args: { n } })));
    expect(answers.map(({ body }) => body.raw)).toEqual(numbers);
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
    const [delivery] = await delivered(await invoke(id, { card: `{{ ${reactors.cardId} }}` }), 1);
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
    await vault.process().kill();
    await vault.start();
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
