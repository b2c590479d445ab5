import { waitUntil } from '@token-vault/test-support';
import { describe, expect, it } from 'vitest';
import { rule } from '../world/rules.ts';
import { functionOf, makeCard, reactorOf } from '../world/vault.ts';
import { useRunningCode } from './running-code.ts';

// Code has the data of a card, from the vault or in its arguments. After its reactor or its application has ended, or the reactor has got
// another application, the code does nothing more with the data, and no result with the data is given.

const setup = useRunningCode();
const { number, manager, makeApplication, receiver, makeReactor, kinds, sentNumbers, isAtGate, deliveryOf } =
  setup;

describe('code that acts for an application', () => {
  it('does nothing more once its reactor has another application', async () => {
    receiver.plan('hang');
    const reader = await makeApplication({ rules: [rule()] });
    const caller = await makeApplication({ permissions: ['token:use'] });
    const cardId = await makeCard(setup.owner.client, number);
    const code = `const card = await svc.tokens.retrieve('${cardId}');
      await fetch('${receiver.url}/gate');
      await fetch('${receiver.url}/out', { method: 'POST', body: JSON.stringify(card) });
      return {};`;
    const id = await makeReactor(code, reader);
    const answer = caller.client.request('POST', `/reactors/${id}/react`, { body: { args: {} } });
    await isAtGate('code');
    const body = reactorOf(functionOf('return {};'), { application: setup.inside });
    await manager.expect(200, 'PUT', `/reactors/${id}`, { body });
    receiver.release();
    expect([(await answer).status, sentNumbers()]).toEqual([403, 0]);
  });

  it('goes on when the code was changed alone', async () => {
    receiver.plan('hang');
    const caller = await makeApplication({ permissions: ['token:use'] });
    const waiting = `await fetch('${receiver.url}/gate'); return { raw: 'first' };`;
    const id = await makeReactor(waiting, setup.inside);
    const answer = caller.client.request('POST', `/reactors/${id}/react`, { body: { args: {} } });
    await isAtGate('code');
    const body = reactorOf(functionOf("return { raw: 'second' };"), { application: setup.inside });
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
    await isAtGate('code');
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
      const waiting = `await fetch('${receiver.url}/gate'); ${send()} return {};`;
      const inner = await makeReactor(waiting, setup.inside);
      const outer = await makeApplication({ permissions: ['token:use'] });
      const caller = await makeApplication({ permissions: ['token:use'] });
      const callback = `callback_url: '${receiver.url}/result'`;
      const asking = `return { raw: await svc.reactors.react('${inner}', { args: { card: '${number}' }, ${callback} }) };`;
      const [, invoke] = (await kinds[kind]?.(asking, outer)) ?? ['', ''];
      await caller.client.request('POST', invoke, { body: { args: {} } });
      await isAtGate('inner code');
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
    await isAtGate('outer code');
    await remove(`/applications/${ownerId}`);
    receiver.release();
    expect([(await answer).status, sentNumbers()]).toEqual([403, 0]);
  });
});
