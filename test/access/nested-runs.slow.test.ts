import type { Token } from '@token-vault/contracts';
import { waitUntil } from '@token-vault/test-support';
import { describe, expect, it } from 'vitest';
import { rule } from '../world/rules.ts';
import { makeCard } from '../world/vault.ts';
import { useRunningCode } from './running-code.ts';

// Outer code reads a card and gives its data to inner code. After a right of the outer run was withdrawn, the inner code does nothing more
// with the data, and no result with the data is given.

const setup = useRunningCode();
const { number, manager, makeApplication, receiver, makeReactor, kinds, sentNumbers, isAtGate, deliveryOf } =
  setup;

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

const mine =
  "{ type: 'token', data: JSON.stringify(args.card), containers: ['/mine/'], metadata: { of: 'nested' } }";
const acts: Readonly<Record<string, (url: string) => string>> = {
  'sends it': (url) => `await fetch('${url}/out', { method: 'POST', body: JSON.stringify(args) });`,
  'makes a token of it': () => `await svc.tokens.create(${mine});`,
};
const modes = ['waits for the inner code', 'does not wait for the inner code'] as const;

async function countMade(): Promise<number> {
  const path = '/tokens?metadata.of=nested&size=100';
  return (await setup.owner.client.expect<{ data: Token[] }>(200, 'GET', path)).body.data.length;
}

/** Outer code that reads a card and gives it to `inner`. */
async function invokeOuter(kind: string, inner: string, isWaiting: boolean) {
  const [reader, caller] = [
    await makeApplication({ rules: [rule()] }),
    await makeApplication({ permissions: ['token:use'] }),
  ];
  const cardId = await makeCard(setup.owner.client, number);
  const callback = isWaiting ? '' : `, callback_url: '${receiver.url}/result'`;
  const code = `const { data } = await svc.tokens.retrieve('${cardId}');
    return { raw: await svc.reactors.react('${inner}', { args: { card: data }${callback} }) };`;
  const [path, invoke] = (await kinds[kind]?.(code, reader)) ?? ['', ''];
  const answer = caller.client.request('POST', invoke, { body: { args: {} } });
  return { answer, outer: { readerId: reader.id, callerId: caller.id, path } };
}

/** Inner code that continues with `act` after `withdraw`. Gives the number of times that the act was done. */
async function run(kind: string, mode: string, act: string, withdraw: (of: Outer) => Promise<unknown>) {
  const isWaiting = mode === modes[0];
  const inner = await makeReactor(
    `await fetch('${receiver.url}/gate'); ${acts[act]?.(receiver.url) ?? ''} return {};`,
    setup.inside,
  );
  receiver.plan('hang');
  const before = await countMade();
  const { answer, outer } = await invokeOuter(kind, inner, isWaiting);
  await isAtGate('inner code');
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
    const inner = await makeReactor('return { raw: args.card };', setup.inside);
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
    const inner = await makeReactor('console.log(JSON.stringify(args)); return {};', setup.inside);
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

/** Outer code that has the card from inner code, and continues after `withdraw`. */
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
  const cardId = await makeCard(setup.owner.client, number);
  const inner = await makeReactor(`return { raw: await svc.tokens.retrieve('${cardId}') };`, reader);
  const code = `const given = await svc.reactors.react('${inner}', { args: {} });
    await fetch('${receiver.url}/gate');
    ${act}`;
  const path = `/reactors/${await makeReactor(code, outside)}/react`;
  const headers = { 'SVC-IDEMPOTENCY-KEY': `given-${cardId}` };
  const ask = () => caller.client.request('POST', path, { body: { args: {} }, headers });
  const answer = ask();
  await isAtGate('outer code');
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
      setup.inside,
    );
    receiver.plan('hang');
    const { answer, outer } = await invokeOuter('reactor', inner, true);
    await isAtGate('inner code');
    await manager.expect(200, 'POST', `/applications/${outer.readerId}/regenerate`);
    receiver.release();
    expect((await answer).text).toContain('done');
  });

  it('when the proxy whose code asked for it gets another key', async () => {
    const inner = await makeReactor(
      `await fetch('${receiver.url}/gate'); return { raw: args.card };`,
      setup.inside,
    );
    receiver.plan('hang');
    const { answer, outer } = await invokeOuter('proxy', inner, false);
    await answer;
    await isAtGate('inner code');
    await manager.expect(201, 'POST', `${outer.path}/keys`, { body: {} });
    receiver.release();
    await waitUntil(() => sentNumbers() === 1, { timeoutMs: 15_000, what: 'the result' });
  });
});
