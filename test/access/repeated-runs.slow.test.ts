import type { LogEntry } from '@token-vault/contracts';
import { cardNumber, cardToken } from '@token-vault/test-support';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { repeatable } from '../world/repeats.ts';
import { rule } from '../world/rules.ts';
import { type Caller, makeCard, useVault } from '../world/vault.ts';

// The repeat of a run with an idempotency key shows the result of code that ran before (ADR 16).

const number = cardNumber();
const vault = useVault();
const { manager, makeApplication } = vault;
let caller: Caller;
/** The application of the reactor. */
let owner: Caller;
let cardId: string;

beforeAll(async () => {
  caller = await makeApplication({ rules: [rule()] });
  cardId = await makeCard(caller.client, number);
});
beforeEach(async () => {
  owner = await makeApplication({ rules: [rule()] });
});

const echo = 'return { raw: args.card };';

async function repeatableRun(code: string, args: object = { card: `{{ ${cardId} }}` }) {
  const id = await vault.makeFunction(code, { application: owner });
  return { id, send: repeatable(caller.client, 'POST', `/reactors/${id}/react`, { args }) };
}

const patch = (id: string, body: object) =>
  manager.expect(204, 'PATCH', `/reactors/${id}`, {
    body,
    headers: { 'Content-Type': 'application/merge-patch+json' },
  });

describe('the repeat of a run', () => {
  it.each<[string, (id: string) => Promise<unknown>]>([
    ['has no application', (id) => patch(id, { application: null })],
    [
      'has another application',
      async (id) => patch(id, { application: { id: (await makeApplication({ rules: [rule()] })).id } }),
    ],
    ['had an application that was deleted', () => manager.expect(204, 'DELETE', owner.path)],
  ])('is refused when the reactor %s since the run', async (_how, withdraw) => {
    const { id, send } = await repeatableRun(echo);
    const first = await send();
    expect([first.status, first.text.includes(number)]).toEqual([200, true]);
    await withdraw(id);
    const repeat = await send();
    expect([repeat.status, repeat.text.includes(number)]).toEqual([403, false]);
  });

  it('is shown when the code of the reactor was changed since the run', async () => {
    const { id, send } = await repeatableRun(echo);
    const first = await send();
    await patch(id, { code: 'module.exports = async () => ({ raw: null });' });
    const repeat = await send();
    expect([repeat.status, repeat.text]).toEqual([200, first.text]);
  });

  it('shows each token of the output in its place, also when the code asked for another run', async () => {
    const inner = await vault.makeFunction('return { raw: args.value };', { application: owner });
    const { send } = await repeatableRun(
      `await svc.reactors.react('${inner}', { args: { value: 1 } });
       const tokenOf = (data) => ({ type: 'token', data, mask: '{{ data }}' });
       return { raw: args.value, tokenize: { a: tokenOf('first'), b: tokenOf('second') } };`,
      { value: 'with tokens' },
    );
    const first = await send();
    expect(first.body).toMatchObject({
      raw: 'with tokens',
      tokens: { a: { data: 'first' }, b: { data: 'second' } },
    });
    const repeat = await send();
    expect([repeat.status, repeat.body]).toEqual([200, first.body]);
  });

  it('leaves no reading in the log when it is refused', async () => {
    const other = (await caller.client.expect<{ id: string }>(201, 'POST', '/tokens', { body: cardToken() }))
      .body.id;
    const { send } = await repeatableRun('return { raw: await svc.tokens.retrieve(args.other) };', {
      card: `{{ ${cardId} }}`,
      other,
    });
    const usesOf = (entity_id: string): Promise<readonly LogEntry[]> =>
      vault.logOf({ entity_id, operation: 'use' });
    expect((await send()).status).toBe(200);
    const before = await usesOf(cardId);
    const body = { name: 'a', rules: [rule({ transform: 'mask' })] };
    await manager.expect(200, 'PUT', owner.path, { body });
    expect((await send()).status).toBe(403);
    expect(await usesOf(cardId)).toEqual(before);
  });
});
