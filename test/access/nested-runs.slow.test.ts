import type { Token } from '@token-vault/contracts';
import { cardNumber, waitUntil } from '@token-vault/test-support';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { makeProxyOf, nowhere } from '../world/proxies.ts';
import { useReceiver } from '../world/receivers.ts';
import { rule } from '../world/rules.ts';
import { type Caller, functionOf, makeCard, reactorOf, useVault } from '../world/vault.ts';

// Outer code reads a card and gives its data to inner code. After a right of the outer run was withdrawn, the inner code does nothing more
// with the data, and no result with the data is given.

const number = cardNumber();
const vault = useVault();
const { manager, makeApplication } = vault;
const receiver = useReceiver(beforeEach);
/** Sees everything. */
let owner: Caller;
/** The application of the inner code. It may make tokens, and sees none but them. */
let inside: Caller;

const makeReactor = (code: string, application: Caller): Promise<string> =>
  vault.makeFunction(code, { application });

beforeAll(async () => {
  await vault.setTenant({ proxy_destinations: nowhere });
  owner = await makeApplication({ rules: [rule()] });
  inside = await makeApplication({ rules: [rule({ container: '/mine/' })] });
});

interface Outer {
  readonly readerId: string;
  readonly callerId: string;
  /** The path of the reactor or proxy. */
  readonly path: string;
}
type Withdrawal = readonly [name: string, withdraw: (of: Outer) => Promise<unknown>];

const withdrawals: readonly Withdrawal[] = [
  [
    'the application of the outer code may not read the card',
    ({ readerId }) =>
      manager.expect(200, 'PUT', `/applications/${readerId}`, {
        body: { name: 'a', rules: [rule({ container: '/mine/' })] },
      }),
  ],
  ['the caller was deleted', ({ callerId }) => manager.expect(204, 'DELETE', `/applications/${callerId}`)],
  ['the outer code was deleted', ({ path }) => manager.expect(204, 'DELETE', path)],
];

/** Makes outer code of each kind. Gives its path and the path by which it is invoked. */
const kinds: Readonly<Record<string, (code: string, reader: Caller) => Promise<[string, string]>>> = {
  async reactor(code, reader) {
    const path = `/reactors/${await makeReactor(code, reader)}`;
    return [path, `${path}/react`];
  },
  async proxy(code, reader) {
    const invoke = await makeProxyOf(manager, reader.id, functionOf(code));
    return [invoke.replace(/\/invoke$/, ''), invoke];
  },
};

const mine =
  "{ type: 'token', data: JSON.stringify(args.card), containers: ['/mine/'], metadata: { of: 'nested' } }";
const acts: Readonly<Record<string, (url: string) => string>> = {
  'sends it': (url) => `await fetch('${url}/out', { method: 'POST', body: JSON.stringify(args) });`,
  'makes a token of it': () => `await svc.tokens.create(${mine});`,
};
const modes = ['waits for the inner code', 'does not wait for the inner code'] as const;

async function countMade(): Promise<number> {
  const path = '/tokens?metadata.of=nested&size=100';
  return (await owner.client.expect<{ data: Token[] }>(200, 'GET', path)).body.data.length;
}

const sentNumbers = (): number => receiver.deliveries.filter(({ text }) => text.includes(number)).length;

/** Outer code that reads a card and gives it to `inner`. */
async function invokeOuter(kind: string, inner: string, isWaiting: boolean) {
  const [reader, caller] = [
    await makeApplication({ rules: [rule()] }),
    await makeApplication({ permissions: ['token:use'] }),
  ];
  const cardId = await makeCard(owner.client, number);
  const callback = isWaiting ? '' : `, callback_url: '${receiver.url}/result'`;
  const code = `const { data } = await svc.tokens.retrieve('${cardId}');
    return { raw: await svc.reactors.react('${inner}', { args: { card: data }${callback} }) };`;
  const [path, invoke] = (await kinds[kind]?.(code, reader)) ?? ['', ''];
  const answer = caller.client.request('POST', invoke, { body: { args: {} } });
  return { answer, outer: { readerId: reader.id, callerId: caller.id, path } };
}

interface Listed {
  readonly data: readonly { readonly id: string; readonly delivery?: { readonly state: string } }[];
}

/** Waits until the delivery of the run of a reactor has one of these states. Gives the id of the run. */
async function deliveryOf(reactorId: string, states: readonly string[]): Promise<string> {
  const list = async () =>
    (await manager.expect<Listed>(200, 'GET', `/invocations?reactor_id=${reactorId}`)).body.data[0];
  const isThere = async () => states.includes((await list())?.delivery?.state ?? '');
  await waitUntil(isThere, { timeoutMs: 15_000, what: 'the delivery' });
  return (await list())?.id ?? '';
}

/** The inner code goes on with `act` after `withdraw`. Gives how often it was done. */
async function run(kind: string, mode: string, act: string, withdraw: (of: Outer) => Promise<unknown>) {
  const isWaiting = mode === modes[0];
  const inner = await makeReactor(
    `await fetch('${receiver.url}/gate'); ${acts[act]?.(receiver.url) ?? ''} return {};`,
    inside,
  );
  receiver.plan('hang');
  const before = await countMade();
  const { answer, outer } = await invokeOuter(kind, inner, isWaiting);
  await waitUntil(() => receiver.held === 1, { what: 'the inner code at the gate' });
  if (!isWaiting) await answer;
  await withdraw(outer);
  receiver.release();
  await answer;
  if (!isWaiting) await deliveryOf(inner, ['delivered', 'given-up']);
  return sentNumbers() + (await countMade()) - before;
}

const cases = Object.keys(kinds).flatMap((kind) =>
  modes.flatMap((mode) => Object.keys(acts).map((act) => [kind, mode, act] as const)),
);

describe('inner code that was given a card', () => {
  it.each(cases)('by a %s that %s: %s', async (kind, mode, act) => {
    expect(await run(kind, mode, act, () => Promise.resolve())).toBe(1);
  });

  describe.each(withdrawals)('does nothing more once %s', (_name, withdraw) => {
    it.each(cases)('by a %s that %s: %s', async (kind, mode, act) => {
      expect(await run(kind, mode, act, withdraw)).toBe(0);
    });
  });
});

describe('the result of inner code that was given a card', () => {
  it.each(
    Object.keys(kinds).flatMap((kind) =>
      withdrawals.map(([name, withdraw]) => [kind, name, withdraw] as const),
    ),
  )('by a %s is not delivered again once %s', async (kind, _name, withdraw) => {
    const inner = await makeReactor('return { raw: args.card };', inside);
    receiver.plan(500);
    const { answer, outer } = await invokeOuter(kind, inner, false);
    await answer;
    await waitUntil(() => sentNumbers() === 1, { timeoutMs: 15_000, what: 'the first attempt' });
    await withdraw(outer);
    await manager.expect(202, 'POST', `/invocations/${await deliveryOf(inner, ['due'])}/redeliver`);
    await deliveryOf(inner, ['given-up']);
    expect([sentNumbers(), receiver.deliveries.length]).toEqual([1, 1]);
  });
});

describe('inner code of a proxy', () => {
  it('has no lines on record, as its arguments may be data', async () => {
    const inner = await makeReactor('console.log(JSON.stringify(args)); return {};', inside);
    const { answer } = await invokeOuter('proxy', inner, true);
    expect((await answer).status).toBe(200);
    const path = `/invocations?reactor_id=${inner}`;
    const [listed] = (await manager.expect<{ data: { readonly id: string }[] }>(200, 'GET', path)).body.data;
    const shown = await manager.expect(200, 'GET', `/invocations/${listed?.id ?? ''}`);
    expect(shown.text).not.toContain(number);
    expect(shown.body).toHaveProperty('console_withheld');
    expect(shown.body).not.toHaveProperty('console');
  });
});

/** Outer code that has the card from inner code, and goes on after `withdraw`. */
async function goOn(
  act: string,
  withdraw: (of: { readonly inner: string; readonly outer: string }) => Promise<unknown>,
) {
  receiver.plan('hang');
  const [reader, outside, caller] = [
    await makeApplication({ rules: [rule()] }),
    await makeApplication({ permissions: ['token:use', 'token:create'] }),
    await makeApplication({ permissions: ['token:use'] }),
  ];
  const cardId = await makeCard(owner.client, number);
  const inner = await makeReactor(`return { raw: await svc.tokens.retrieve('${cardId}') };`, reader);
  const code = `const given = await svc.reactors.react('${inner}', { args: {} });
    await fetch('${receiver.url}/gate');
    ${act}`;
  const path = `/reactors/${await makeReactor(code, outside)}/react`;
  const headers = { 'SVC-IDEMPOTENCY-KEY': `given-${cardId}` };
  const ask = () => caller.client.request('POST', path, { body: { args: {} }, headers });
  const answer = ask();
  await waitUntil(() => receiver.held === 1, { what: 'the outer code at the gate' });
  const withdrawn = () => withdraw({ inner, outer: outside.id });
  return { answer, ask, withdrawn };
}

const withdrawalsOfInner: readonly [string, (of: { inner: string; outer: string }) => Promise<unknown>][] = [
  ['the inner reactor was deleted', ({ inner }) => manager.expect(204, 'DELETE', `/reactors/${inner}`)],
  [
    'the application of the outer code was deleted',
    ({ outer }) => manager.expect(204, 'DELETE', `/applications/${outer}`),
  ],
  [
    'that application may not ask for runs',
    ({ outer }) =>
      manager.expect(200, 'PUT', `/applications/${outer}`, {
        body: { name: 'a', permissions: ['token:create'] },
      }),
  ],
];

describe('outer code that was given the result of inner code', () => {
  const sendTo = () =>
    `await fetch('${receiver.url}/out', { method: 'POST', body: JSON.stringify(given) }); return {};`;

  it('sends it, and answers it again', async () => {
    const { answer, ask } = await goOn('return { raw: given };', () => Promise.resolve());
    receiver.release();
    expect((await answer).text).toContain(number);
    expect((await ask()).text).toContain(number);
  });

  it.each(withdrawalsOfInner)('does not send it once %s', async (_name, withdraw) => {
    const { answer, withdrawn } = await goOn(sendTo(), withdraw);
    await withdrawn();
    receiver.release();
    expect([(await answer).status, sentNumbers()]).toEqual([403, 0]);
  });

  it.each(withdrawalsOfInner)('does not answer it once %s, nor again', async (_name, withdraw) => {
    const first = await goOn('return { raw: given };', withdraw);
    await first.withdrawn();
    receiver.release();
    const { status, text } = await first.answer;
    expect([status, text.includes(number)]).toEqual([403, false]);
    const second = await goOn('return { raw: given };', withdraw);
    receiver.release();
    expect((await second.answer).text).toContain(number);
    await second.withdrawn();
    const repeat = await second.ask();
    expect([repeat.status, repeat.text.includes(number)]).toEqual([403, false]);
  });
});

describe('inner code goes on', () => {
  it('when the application for which its invoker acts gets another key, which the code never used', async () => {
    const inner = await makeReactor(
      `await fetch('${receiver.url}/gate'); await fetch('${receiver.url}/out'); return { raw: 'done' };`,
      inside,
    );
    receiver.plan('hang');
    const { answer, outer } = await invokeOuter('reactor', inner, true);
    await waitUntil(() => receiver.held === 1, { what: 'the inner code at the gate' });
    await manager.expect(200, 'POST', `/applications/${outer.readerId}/regenerate`);
    receiver.release();
    expect((await answer).text).toContain('done');
  });

  it('when the proxy whose code asked for it gets another key', async () => {
    const inner = await makeReactor(
      `await fetch('${receiver.url}/gate'); return { raw: args.card };`,
      inside,
    );
    receiver.plan('hang');
    const { answer, outer } = await invokeOuter('proxy', inner, false);
    await answer;
    await waitUntil(() => receiver.held === 1, { what: 'the inner code at the gate' });
    await manager.expect(201, 'POST', `${outer.path}/keys`, { body: {} });
    receiver.release();
    await waitUntil(() => sentNumbers() === 1, { timeoutMs: 15_000, what: 'the result' });
  });
});

describe('code that acts for an application', () => {
  it('does nothing more once its reactor has another application', async () => {
    receiver.plan('hang');
    const reader = await makeApplication({ rules: [rule()] });
    const caller = await makeApplication({ permissions: ['token:use'] });
    const cardId = await makeCard(owner.client, number);
    const code = `const card = await svc.tokens.retrieve('${cardId}');
      await fetch('${receiver.url}/gate');
      await fetch('${receiver.url}/out', { method: 'POST', body: JSON.stringify(card) });
      return {};`;
    const id = await makeReactor(code, reader);
    const answer = caller.client.request('POST', `/reactors/${id}/react`, { body: { args: {} } });
    await waitUntil(() => receiver.held === 1, { what: 'the code at the gate' });
    const body = reactorOf(functionOf('return {};'), { application: inside });
    await manager.expect(200, 'PUT', `/reactors/${id}`, { body });
    receiver.release();
    expect([(await answer).status, sentNumbers()]).toEqual([403, 0]);
  });

  it('goes on when the code was changed alone', async () => {
    receiver.plan('hang');
    const caller = await makeApplication({ permissions: ['token:use'] });
    const id = await makeReactor(`await fetch('${receiver.url}/gate'); return { raw: 'first' };`, inside);
    const answer = caller.client.request('POST', `/reactors/${id}/react`, { body: { args: {} } });
    await waitUntil(() => receiver.held === 1, { what: 'the code at the gate' });
    const body = reactorOf(functionOf("return { raw: 'second' };"), { application: inside });
    await manager.expect(200, 'PUT', `/reactors/${id}`, { body });
    receiver.release();
    const { status, body: result } = await answer;
    expect([status, result]).toEqual([200, { raw: 'first' }]);
  });
});

/** Code that was given a card in its arguments. */
interface Made {
  readonly id: string;
  readonly ownerId: string;
}
const deletions: readonly [name: string, path: (of: Made) => string][] = [
  ['the reactor was deleted', ({ id }) => `/reactors/${id}`],
  ['its application was deleted', ({ ownerId }) => `/applications/${ownerId}`],
];

describe('code that was given a card in its arguments', () => {
  const made = async (code: string): Promise<Made> => {
    const application = await makeApplication({ rules: [rule({ container: '/mine/' })] });
    return { id: await makeReactor(code, application), ownerId: application.id };
  };
  const remove = (path: string) => manager.expect(204, 'DELETE', path);
  const send = () =>
    `await fetch('${receiver.url}/out', { method: 'POST', body: args.card }).catch(() => undefined);`;

  it.each(deletions)('does not send it once %s, and its result is not answered', async (_name, pathOf) => {
    receiver.plan('hang');
    const code = await made(`await fetch('${receiver.url}/gate'); ${send()} return { raw: args.card };`);
    const caller = await makeApplication({ permissions: ['token:use'] });
    const body = { args: { card: number } };
    const answer = caller.client.request('POST', `/reactors/${code.id}/react`, { body });
    await waitUntil(() => receiver.held === 1, { what: 'the code at the gate' });
    await remove(pathOf(code));
    receiver.release();
    const { status, text } = await answer;
    expect([status, text.includes(number), sentNumbers()]).toEqual([403, false, 0]);
  });

  it.each(deletions)('has no result that is delivered again once %s', async (_name, pathOf) => {
    receiver.plan(500);
    const code = await made('return { raw: args.card };');
    const caller = await makeApplication({ permissions: ['token:use'] });
    const body = { args: { card: number }, callback_url: receiver.url };
    const { headers } = await caller.client.request('POST', `/reactors/${code.id}/react`, { body });
    await waitUntil(() => sentNumbers() === 1, { timeoutMs: 15_000, what: 'the first attempt' });
    await remove(pathOf(code));
    const invocationId = headers.get('svc-invocation-id') ?? '';
    await manager.expect(202, 'POST', `/invocations/${invocationId}/redeliver`);
    await waitUntil(() => receiver.deliveries.length === 2, {
      timeoutMs: 15_000,
      what: 'the second attempt',
    });
    expect(sentNumbers()).toBe(1);
  });

  it('runs when its application was deleted before', async () => {
    const code = await made('return { raw: args.card };');
    await remove(`/applications/${code.ownerId}`);
    const caller = await makeApplication({ permissions: ['token:use'] });
    const body = { args: { card: number } };
    const answer = await caller.client.expect(200, 'POST', `/reactors/${code.id}/react`, { body });
    expect(answer.text).toContain(number);
  });

  it.each(Object.keys(kinds))(
    'by a %s is not sent once the application of that was deleted',
    async (kind) => {
      receiver.plan('hang');
      const inner = await makeReactor(`await fetch('${receiver.url}/gate'); ${send()} return {};`, inside);
      const outer = await makeApplication({ permissions: ['token:use'] });
      const caller = await makeApplication({ permissions: ['token:use'] });
      const callback = `callback_url: '${receiver.url}/result'`;
      const asking = `return { raw: await svc.reactors.react('${inner}', { args: { card: '${number}' }, ${callback} }) };`;
      const [, invoke] = (await kinds[kind]?.(asking, outer)) ?? ['', ''];
      await caller.client.request('POST', invoke, { body: { args: {} } });
      await waitUntil(() => receiver.held === 1, { what: 'the inner code at the gate' });
      await remove(`/applications/${outer.id}`);
      receiver.release();
      await deliveryOf(inner, ['delivered', 'given-up']);
      expect(sentNumbers()).toBe(0);
    },
  );

  it('is not passed on by code that was given it back, once the application of the inner code was deleted', async () => {
    const { id: inner, ownerId } = await made('return { raw: args.card };');
    const outside = await makeApplication({ permissions: ['token:use'] });
    const caller = await makeApplication({ permissions: ['token:use'] });
    receiver.plan('hang');
    const outer = await makeReactor(
      `const { raw } = await svc.reactors.react('${inner}', { args });
       await fetch('${receiver.url}/gate');
       await fetch('${receiver.url}/out', { method: 'POST', body: JSON.stringify(raw ?? args) });
       return {};`,
      outside,
    );
    const body = { args: { card: number } };
    const answer = caller.client.request('POST', `/reactors/${outer}/react`, { body });
    await waitUntil(() => receiver.held === 1, { what: 'the outer code at the gate' });
    await remove(`/applications/${ownerId}`);
    receiver.release();
    expect([(await answer).status, sentNumbers()]).toEqual([403, 0]);
  });
});
