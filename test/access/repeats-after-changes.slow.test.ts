import { randomUUID } from 'node:crypto';
import { cardNumber, cardToken } from '@token-vault/test-support';
import type { Reactor, Token } from '@token-vault/contracts';
import { describe, expect, it } from 'vitest';
import { useDatabase } from '../world/database.ts';
import { loseAnswers, repeatable } from '../world/repeats.ts';
import { rule } from '../world/rules.ts';
import { openSession } from '../world/sessions.ts';
import { reactorOf, useVault } from '../world/vault.ts';

const number = cardNumber();
const vault = useVault();
const database = useDatabase(vault);
const { manager, makeApplication } = vault;
const cutOff = () => loseAnswers(database);

/** Applies a change, loses its answer, lets `meanwhile` happen, and repeats the request. */
async function repeatAfter(send: ReturnType<typeof repeatable>, meanwhile: () => Promise<unknown>) {
  const first = await send();
  expect(first.status).toBeLessThan(300);
  await cutOff();
  await meanwhile();
  const repeat = await send();
  expect(repeat.status).toBe(first.status);
  return repeat;
}

describe('the repeat of a change whose answer was lost', () => {
  it('does not give back the rules of an application that were withdrawn since', async () => {
    const { path } = await makeApplication({ permissions: ['token:create'] });
    const send = repeatable(manager, 'PUT', path, { name: 'a', rules: [rule()] });
    const narrowed = { name: 'a', rules: [rule({ container: '/elsewhere/' })] };
    const repeat = await repeatAfter(send, () => manager.expect(200, 'PUT', path, { body: narrowed }));
    expect(repeat.body).toMatchObject(narrowed);
    expect((await manager.expect(200, 'GET', path)).body).toMatchObject(narrowed);
    expect((await send()).body).toMatchObject(narrowed);
  });

  it('does not restore older settings of the tenant', async () => {
    const path = '/tenants/self';
    const settingsOf = (value: string) => ({ name: 'own', settings: { deduplicate_tokens: value } });
    const send = repeatable(manager, 'PUT', path, settingsOf('true'));
    const later = settingsOf('false');
    const repeat = await repeatAfter(send, () => manager.expect(200, 'PUT', path, { body: later }));
    expect(repeat.body).toMatchObject(later);
    expect((await manager.expect(200, 'GET', path)).body).toMatchObject(later);
  });

  it.each(['PUT', 'PATCH'])('does not set back the code of a reactor (%s)', async (method) => {
    const codeOf = (value: number) => `module.exports = async () => ({ raw: ${value} });`;
    const bodyOf = (value: number) => reactorOf(codeOf(value));
    const path = `/reactors/${await vault.makeReactor(codeOf(0))}`;
    const send = repeatable(manager, method, path, bodyOf(1));
    await repeatAfter(send, () => manager.expect(200, 'PUT', path, { body: bodyOf(2) }));
    expect((await manager.expect<Reactor>(200, 'GET', path)).body.code).toBe(codeOf(2));
  });

  it('does not show again data that was hidden since, and shows the present token', async () => {
    const { client: caller } = await makeApplication({ rules: [rule()] });
    const made = await caller.expect<Token>(201, 'POST', '/tokens', { body: cardToken(number) });
    const path = `/tokens/${made.body.id}`;
    const patch = (body: object) => ({ body, headers: { 'Content-Type': 'application/merge-patch+json' } });
    const sent = patch({ mask: '{{ data.number }}' });
    const headers = { ...sent.headers, 'SVC-IDEMPOTENCY-KEY': randomUUID() };
    const send = () => caller.request('PATCH', path, { body: sent.body, headers });
    const hidden = patch({ mask: 'hidden' });
    const repeat = await repeatAfter(send, () => caller.expect(200, 'PATCH', path, hidden));
    expect(repeat.body).toMatchObject({ mask: 'hidden' });
    expect((await caller.expect<Token>(200, 'GET', path)).body.mask).toBe('hidden');
    expect((await send()).body).toMatchObject({ mask: 'hidden' });
  });

  it('is answered as done when the change can be made only once', async () => {
    const opener = await makeApplication({ type: 'public', permissions: ['token:create'] });
    const authorizer = await makeApplication({ rules: [rule()] });
    const { nonce } = await openSession(opener.client);
    const grant = { nonce, permissions: ['token:create'] };
    const repeat = await repeatAfter(
      repeatable(authorizer.client, 'POST', '/sessions/authorize', grant),
      cutOff,
    );
    expect(repeat.status).toBe(200);
  });
});
