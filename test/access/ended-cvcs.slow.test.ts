import type { Token } from '@token-vault/contracts';
import { cardToken, waitUntil } from '@token-vault/test-support';
import { beforeAll, describe, expect, it } from 'vitest';
import { useMovableClock } from '../world/movable-clock.ts';
import { useReceiver } from '../world/receivers.ts';
import { rule } from '../world/rules.ts';
import { type Caller, functionOf, useVault } from '../world/vault.ts';

// A request or its code is given a cvc, and waits at a gate. The cvc ends. Nothing of it is sent, stored or shown any more.

const cvc = '737';
const clock = useMovableClock();
const vault = useVault({ env: { VAULT_EGRESS_ALLOW: '127.0.0.0/8', ...clock.env } });
const { manager } = vault;
const receiver = useReceiver(beforeAll);
let owner: Caller;

beforeAll(async () => {
  owner = await vault.makeApplication({ rules: [rule()] });
  await vault.setTenant({ proxy_destinations: new URL(receiver.url).origin });
});

const endOf = ({ created_at: createdAt }: Token): number => Date.parse(createdAt ?? '') + 3_600_000;

/** A later move must be small: to a sweeper, a run whose deadline is past is lost. */
const leftMs = 20_000;

/** A card whose cvc has `leftMs` left. */
async function makeCard(): Promise<Token> {
  const card = (await owner.client.expect<Token>(201, 'POST', '/tokens', { body: cardToken() })).body;
  clock.moveTo(endOf(card) - leftMs);
  return card;
}

const hasCvc = async (id: string): Promise<boolean> =>
  (await owner.client.expect(200, 'GET', `/tokens/${id}`)).text.includes(`"cvc":"${cvc}"`);

/** Moves the clock of the vault to the end of the cvc of the card. */
async function endCvc(card: Token): Promise<void> {
  expect(await hasCvc(card.id)).toBe(true);
  clock.moveTo(endOf(card));
  await waitUntil(async () => !(await hasCvc(card.id)), { what: 'the end of the cvc' });
}

/** Requests with the cvc in their bodies. */
const sent = (): number => receiver.deliveries.filter(({ text }) => text.includes(`"v":"${cvc}"`)).length;
const made = async (): Promise<number> =>
  (await owner.client.expect<{ data: Token[] }>(200, 'GET', '/tokens?metadata.of=cvc')).body.data.length;

const send = (v: string) => `await fetch(args.url, { method: 'POST', body: JSON.stringify({ v: ${v} }) });`;
const makeReactor = (code: string): Promise<string> => vault.makeFunction(code, { application: owner });

/** Sends `ask`, and does `meanwhile` once it waits at the gate. */
async function atGate<Answer>(
  ask: () => Promise<Answer>,
  meanwhile: () => Promise<unknown>,
): Promise<Answer> {
  receiver.plan('hang');
  const answer = ask();
  await waitUntil(() => receiver.held === 1, { timeoutMs: 20_000, what: 'the gate' });
  await meanwhile();
  receiver.release();
  return answer;
}

const ways: Readonly<Record<string, (id: string) => object>> = {
  'in its arguments': (id) => ({ v: `{{ ${id} | json: '$.cvc' }}` }),
  'by req.svc': (id) => ({ id }),
};
const acts: Readonly<Record<string, string>> = {
  'sends it': send('v'),
  'makes a token of it': "await svc.tokens.create({ type: 'token', data: v, metadata: { of: 'cvc' } });",
  'gives it to other code': 'await svc.reactors.react(args.inner, { args: { url: args.url, v } });',
  'returns it as a token': "return { tokenize: { type: 'token', data: v, metadata: { of: 'cvc' } } };",
};

describe.each(Object.keys(ways))('code that was given a cvc %s', (way) => {
  it.each(Object.keys(acts))('%s before its end only', async (act) => {
    const inner = await makeReactor(send('args.v'));
    const outer = await makeReactor(`
      const v = args.v ?? (await svc.tokens.retrieve(args.id)).data.cvc;
      await fetch(args.url);
      ${acts[act] ?? ''}
      return {};`);
    const run = async (meanwhile: (card: Token) => Promise<unknown>) => {
      const card = await makeCard();
      const args = { url: receiver.url, inner, ...ways[way]?.(card.id) };
      const before = sent() + (await made());
      const path = `/reactors/${outer}/react`;
      const ask = () => owner.client.request('POST', path, { body: { args } });
      const { status } = await atGate(ask, () => meanwhile(card));
      return [status, sent() + (await made()) - before];
    };
    expect(await run(async () => undefined)).toEqual([200, 1]);
    // The step is refused, and what is left of the run ends with the cvc.
    expect(await run(endCvc)).toEqual([409, 0]);
  });
});

it('code that was shown the card by a mask without the cvc goes on after its end', async () => {
  const masked = await vault.makeApplication({ rules: [rule({ transform: 'mask' })] });
  const code = `const { data } = await svc.tokens.retrieve(args.id);
    await fetch(args.url);
    return { raw: data.number.length };`;
  const reactor = await vault.makeFunction(code, { application: masked });
  const card = await makeCard();
  const args = { url: receiver.url, id: card.id };
  const ask = () => owner.client.request('POST', `/reactors/${reactor}/react`, { body: { args } });
  const { status, body } = await atGate(ask, () => endCvc(card));
  expect([status, body]).toEqual([200, { raw: 16 }]);
});

it('the result of a run that code asked for is not delivered after the end of the cvc of that code', async () => {
  const inner = await makeReactor('return { raw: { v: args.v } };');
  const outer = await makeReactor(`
    const { data } = await svc.tokens.retrieve(args.id);
    await svc.reactors.react(args.inner, { args: { v: data.cvc }, callback_url: args.url });
    return {};`);
  const card = await makeCard();
  const before = sent();
  receiver.plan(500);
  const args = { url: receiver.url, inner, id: card.id };
  await owner.client.expect(200, 'POST', `/reactors/${outer}/react`, { body: { args } });
  await waitUntil(() => sent() === before + 1, { timeoutMs: 20_000, what: 'the first attempt' });
  await endCvc(card);
  const path = `/invocations?reactor_id=${inner}`;
  const state = async () =>
    (await manager.expect<{ data: { delivery?: { state: string } }[] }>(200, 'GET', path)).body.data[0]
      ?.delivery?.state ?? '';
  await waitUntil(async () => ['delivered', 'given-up'].includes(await state()), {
    timeoutMs: 20_000,
    what: 'the end of the delivery',
  });
  expect([await state(), sent()]).toEqual(['given-up', before + 1]);
});

describe('a request through a proxy', () => {
  it('whose answer comes after the end of the cvc that was sent: the answer is withheld', async () => {
    const card = await makeCard();
    const headers = { 'SVC-PROXY-URL': receiver.url };
    const ask = () =>
      owner.client.request('POST', '/proxy', { body: ways['in its arguments']?.(card.id) ?? {}, headers });
    const before = sent();
    expect((await atGate(ask, async () => undefined)).status).toBe(204);
    expect((await atGate(ask, () => endCvc(card))).status).toBe(403);
    expect(sent()).toBe(before + 2);
  });

  const destination = () => new URL(receiver.url).origin;
  async function invoke(code: object, card: Token, body: object): Promise<number> {
    const proxy = { name: 'p', destination: destination(), application: { id: owner.id }, ...code };
    const { id } = (await manager.expect<{ id: string }>(201, 'POST', '/proxies', { body: proxy })).body;
    const ask = () => owner.client.request('POST', `/proxies/${id}/invoke/hook`, { body });
    return (await atGate(ask, () => endCvc(card))).status;
  }

  it.each(Object.keys(ways))('whose code has a cvc (%s) is not sent after the end', async (way) => {
    const card = await makeCard();
    const code = functionOf(`
      const { id, v = (await svc.tokens.retrieve(id)).data.cvc } = args.body;
      await fetch('${receiver.url}');
      return { raw: { body: { v } } };`);
    const before = sent();
    expect(await invoke({ request: { code } }, card, ways[way]?.(card.id) ?? {})).toBe(403);
    expect(sent()).toBe(before);
  });

  it('whose code of the answer has a cvc is not answered after the end', async () => {
    const card = await makeCard();
    const code = functionOf(`
      const { data } = await svc.tokens.retrieve('${card.id}');
      await fetch('${receiver.url}');
      return { raw: { status: 200, body: { v: data.cvc } } };`);
    receiver.plan(200);
    expect(await invoke({ response: { code } }, card, { z: 1 })).toBe(403);
  });
});
