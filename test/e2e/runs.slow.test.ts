import type { Invocation, ShownInvocation, Token } from '@token-vault/contracts';
import { cardNumber, cardToken, type Client, waitUntil } from '@token-vault/test-support';
import { beforeAll, describe, expect, it } from 'vitest';
import { useReceiver } from '../world/receivers.ts';
import { useVault } from '../world/vault.ts';
import { type Delivery, isSigned, signaturesOf } from './receiver.ts';

const receiver = useReceiver(beforeAll);
const vault = useVault();
const { manager } = vault;
let backend: Client;
let card: Token;

beforeAll(async () => {
  backend = (await newCaller()).client;
  card = (await backend.expect<Token>(201, 'POST', '/tokens', { body: cardToken(cardNumber()) })).body;
});
const newCaller = (grants: object = {}) =>
  vault.makeApplication({ permissions: ['token:create', 'token:read', 'token:use'], ...grants });
const newReactor = (body: string, application?: { readonly id: string }): Promise<string> =>
  vault.makeReactor(`module.exports = async (req) => {\n${body}\n};`, application && { application });
const react = (id: string, body: object = {}, headers = {}, by = backend) =>
  by.request('POST', `/reactors/${id}/react`, { body, headers });
const idOf = ({ headers }: { readonly headers: Headers }): string => headers.get('svc-invocation-id') ?? '';
const runOf = async (id: string): Promise<Invocation> =>
  (await manager.expect<Invocation>(200, 'GET', `/invocations/${id}`)).body;
const until = (id: string, delivery: string) =>
  waitUntil(async () => (await runOf(id)).delivery?.state === delivery, { what: delivery });
const untilTried = (id: string, attempts: number) =>
  waitUntil(async () => ((await runOf(id)).delivery?.attempts.length ?? 0) >= attempts, {
    what: 'the attempt',
  });
const redeliver = (id: string, by = manager) => by.request('POST', `/invocations/${id}/redeliver`);

describe('an answer to react', () => {
  it('names the run, which can be looked up at once', async () => {
    const reactor = await newReactor('return { raw: 1 };');
    const answer = await react(reactor);
    const at = answer.headers.get('location') ?? '';
    expect([answer.status, at]).toEqual([200, `/invocations/${idOf(answer)}`]);
    const { body } = await manager.expect<Invocation>(200, 'GET', at);
    expect(body).toMatchObject({ id: idOf(answer), reactor: { id: reactor }, state: 'succeeded' });
    expect(body.duration_ms).toBeGreaterThanOrEqual(0);
  });

  it('names the run when the code failed, and when it chose its own response', async () => {
    const failed = await react(await newReactor('throw new Error("the pan is " + 4);'));
    expect([failed.status, await runOf(idOf(failed))]).toMatchObject([
      500,
      { state: 'failed', error: { status: 500, class: 'failed' } },
    ]);
    const custom = `const { CustomHttpResponseError } = require('@token-vault/reactor');
      throw new CustomHttpResponseError({ status: 201, headers: { Location: '/elsewhere', 'SVC-INVOCATION-ID': 'x' } });`;
    const chosen = await react(await newReactor(custom));
    expect([chosen.status, chosen.headers.get('location')]).toEqual([201, '/elsewhere']);
    expect((await runOf(idOf(chosen))).id).toBe(idOf(chosen));
  });

  it('names none when nothing was invoked', async () => {
    const answer = await react(await newReactor('return {};'), { args: { a: '{{ missing }}' } });
    expect([answer.status, idOf(answer), answer.headers.get('location')]).toEqual([400, '', null]);
  });

  it('that is repeated names the same run, from the stored answer too', async () => {
    const reactor = await newReactor('return { raw: 1 };');
    const once = { 'SVC-IDEMPOTENCY-KEY': 'runs-once' };
    const [first, second] = [await react(reactor, {}, once), await react(reactor, {}, once)];
    expect([second.status, idOf(second)]).toEqual([200, idOf(first)]);
    const slow = { 'SVC-IDEMPOTENCY-KEY': 'runs-async' };
    const body = { callback_url: receiver.url };
    const [third, fourth] = [await react(reactor, body, slow), await react(reactor, body, slow)];
    expect([fourth.status, idOf(fourth)]).toEqual([202, idOf(third)]);
    expect(idOf(third)).not.toBe(idOf(first));
  });
});

describe('a run', () => {
  it('is shown to those who may read reactors, without any data', async () => {
    const number = cardNumber();
    const token = (await backend.expect<Token>(201, 'POST', '/tokens', { body: cardToken(number) })).body;
    const reactor = await newReactor('throw new Error(req.args.card.number);');
    const answer = await react(reactor, { args: { card: `{{ ${token.id} }}` } });
    const shown = await manager.expect(200, 'GET', `/invocations/${idOf(answer)}`);
    expect(shown.text).not.toContain(number);
    const listed = await manager.expect(200, 'GET', `/invocations?reactor_id=${reactor}`);
    expect([listed.text.includes(idOf(answer)), listed.text.includes(number)]).toEqual([true, false]);
    const refused = await backend.request('GET', `/invocations/${idOf(answer)}`);
    expect(refused.status).toBe(403);
  });

  it('shows the lines that its code printed, also of a failed run; not when the code got or made a token, or could call the vault', async () => {
    const number = cardNumber();
    const rule = { description: 'r', priority: 1, container: '/', transform: 'reveal' };
    const rules = [{ ...rule, permissions: ['token:create', 'token:read', 'token:use'] }];
    const { client, id: applicationId } = await newCaller({ permissions: undefined, rules });
    const token = (await client.expect<Token>(201, 'POST', '/tokens', { body: cardToken(number) })).body;
    const linesOf = async (code: string, args: object, application?: { readonly id: string }) => {
      const id = idOf(await react(await newReactor(code, application), { args }, {}, client));
      expect((await client.request('GET', `/invocations/${id}`)).status).toBe(403);
      const { body } = await manager.expect<ShownInvocation>(200, 'GET', `/invocations/${id}`);
      return body.console_withheld ?? body.console?.lines.map(({ text }) => text);
    };
    expect(await linesOf('console.warn("paid", req.args.n); throw new Error("no");', { n: 1 })).toEqual([
      'paid 1',
    ]);
    const withheld = /was given, was shown or made tokens/u;
    const given = 'console.warn("paid", req.args.card.number); throw new Error("no");';
    expect(await linesOf(given, { card: `{{ ${token.id} }}` })).toMatch(withheld);
    const made = 'console.log("7"); return { tokenize: { a: { type: "token", data: "7" } } };';
    expect(await linesOf(made, {})).toMatch(withheld);
    const late =
      'req.svc.tokens.create({ type: "token", data: "7" }).catch(() => 0); console.log("7"); return {};';
    expect(await linesOf(late, {}, { id: applicationId })).toMatch(withheld);
  });

  it('no longer shows the lines when the reactor was deleted, whose configuration they may hold', async () => {
    const code = 'module.exports = async (req) => { console.log(req.configuration.KEY); return {}; };';
    const reactor = await vault.makeReactor(code, { configuration: { KEY: 'printed-secret' } });
    const answer = await react(reactor);
    const path = `/invocations/${idOf(answer)}`;
    expect((await manager.expect(200, 'GET', path)).text).toContain('printed-secret');
    await manager.expect(204, 'DELETE', `/reactors/${reactor}`);
    const { body, text } = await manager.expect<ShownInvocation>(200, 'GET', path);
    expect([body.state, body.console, text.includes('printed-secret')]).toEqual([
      'succeeded',
      undefined,
      false,
    ]);
  });

  it('has the reason why a delivery was refused', async () => {
    const answer = await react(await newReactor('return {};'), { callback_url: 'https://10.0.0.1/' });
    expect(answer.status).toBe(202);
    await untilTried(idOf(answer), 1);
    const { delivery } = await runOf(idOf(answer));
    expect(delivery?.attempts[0]).toMatchObject({ number: 1, reason: 'refused-address' });
  });
});

describe('a result that was not delivered', () => {
  it('is delivered at once when a caller requests it, which is in the log', async () => {
    const reactor = await newReactor('return { raw: 7 };');
    // The second attempt would come after 2 s, the third after 5 s more.
    receiver.plan(500, 500);
    const id = idOf(await react(reactor, { callback_url: receiver.url }));
    await untilTried(id, 2);
    expect((await redeliver(id)).status).toBe(202);
    await until(id, 'delivered');
    expect(receiver.deliveries.filter(({ headers }) => headers['webhook-id'] === id)).toHaveLength(3);
    expect(receiver.deliveries.at(-1)?.text).toBe('{"raw":7}');
    const entries = await vault.logOf({ entity_id: reactor });
    expect(entries.map(({ message }) => message)).toContain('Reactor webhook redelivery requested');
  });

  it('is decided again: a caller that lost the right gets a refusal', async () => {
    const { id: callerId, client } = await newCaller();
    const reactor = await newReactor('return { raw: req.args.card.number };');
    receiver.plan(500);
    const args = { card: `{{ ${card.id} }}` };
    const id = idOf(await react(reactor, { args, callback_url: receiver.url }, {}, client));
    await untilTried(id, 1);
    await manager.expect(204, 'DELETE', `/applications/${callerId}`);
    expect([202, 409]).toContain((await redeliver(id)).status);
    await until(id, 'delivered');
    expect(JSON.parse(receiver.deliveries.at(-1)?.text ?? '')).toMatchObject({ status: 403 });
  });

  it('cannot be requested when there is none', async () => {
    const reactor = await newReactor('return {};');
    const sync = await redeliver(idOf(await react(reactor)));
    const delivered = idOf(await react(reactor, { callback_url: receiver.url }));
    await until(delivered, 'delivered');
    const over = await redeliver(delivered);
    const none = await redeliver('00000000-0000-4000-8000-000000000000');
    const refused = await redeliver(delivered, backend);
    expect([sync, over, none, refused].map(({ status }) => status)).toEqual([409, 409, 404, 403]);
  });
});

describe('webhook secrets that overlap', () => {
  const rotate = async (overlap?: number): Promise<string> => {
    const query = overlap === undefined ? '' : `?overlap=${overlap}`;
    const path = `/tenants/self/webhook-secret/rotate${query}`;
    return (await manager.expect<{ secret: string }>(200, 'POST', path)).body.secret;
  };
  const deliveriesOf = (id: string): readonly Delivery[] =>
    receiver.deliveries.filter(({ headers }) => headers['webhook-id'] === id);
  /** The names of the secrets by which a delivery is signed, and the number of its signatures. */
  const signers = (delivery: Delivery | undefined, secrets: Readonly<Record<string, string>>) => {
    if (!delivery) return 'no delivery';
    const names = Object.keys(secrets).filter((name) => isSigned(delivery, secrets[name] ?? ''));
    return [names.join(), signaturesOf(delivery).length];
  };

  it('sign deliveries both, also after a restart, until the overlap is over or another rotation ends it', async () => {
    const reactor = await newReactor('return { raw: 1 };');
    const deliver = async () => {
      const id = idOf(await react(reactor, { callback_url: receiver.url }));
      await until(id, 'delivered');
      return deliveriesOf(id).at(-1);
    };
    const a = (await manager.expect<{ secret: string }>(200, 'GET', '/tenants/self/webhook-secret')).body
      .secret;
    const b = await rotate(3_600);
    receiver.plan(500);
    const kept = idOf(await react(reactor, { callback_url: receiver.url }));
    await untilTried(kept, 1);
    await vault.process().kill();
    await vault.start();
    backend = (await newCaller()).client;
    expect([202, 409]).toContain((await redeliver(kept)).status);
    await until(kept, 'delivered');
    const both = deliveriesOf(kept).map((delivery) => signers(delivery, { a, b }));
    // A delivery may come twice: the process was killed before it had noted that the receiver got it.
    expect(both.length).toBeGreaterThanOrEqual(2);
    expect(new Set(both.map((each) => JSON.stringify(each)))).toEqual(new Set(['["a,b",2]']));

    const c = await rotate();
    expect(signers(await deliver(), { a, b, c })).toEqual(['c', 1]);

    const d = await rotate(1);
    const endsAt = Date.now() + 1_000;
    await waitUntil(() => Date.now() > endsAt, { what: 'the end of the overlap' });
    expect(signers(await deliver(), { c, d })).toEqual(['d', 1]);
  });

  it.each(['-1', '1.5', 'x', '2592001'])('cannot overlap by %s', async (overlap) => {
    const path = `/tenants/self/webhook-secret/rotate?overlap=${overlap}`;
    const answer = await manager.request<{ errors?: object }>('POST', path);
    expect([answer.status, Object.keys(answer.body.errors ?? {})]).toEqual([400, ['overlap']]);
  });
});
