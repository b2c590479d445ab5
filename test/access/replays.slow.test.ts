import { randomUUID } from 'node:crypto';
import type { Application, Token } from '@token-vault/contracts';
import { cardNumber, cardToken, type Client } from '@token-vault/test-support';
import { beforeEach, describe, expect, it } from 'vitest';
import { useDatabase } from '../world/database.ts';
import { loseAnswers, repeatable } from '../world/repeats.ts';
import { rule as ruleWith } from '../world/rules.ts';
import { makeSession } from '../world/sessions.ts';
import { makeCard, useVault } from '../world/vault.ts';

const number = cardNumber();
const masked = `XXXXXXXXXXXX${number.slice(-4)}`;
const permissions = ['token:create', 'token:read', 'token:update', 'token:delete', 'token:use'];

const vault = useVault({});
const database = useDatabase(vault);
const { manager, makeApplication, logOf } = vault;
const cutOff = () => loseAnswers(database);
let caller: Client;
let callerId: string;

const rule = (transform: string, granted: readonly string[] = permissions) =>
  ruleWith({ transform, permissions: granted });

/** Sets the rights of the caller from now on. */
async function grant(grants: { permissions?: readonly string[]; rules?: readonly object[] }): Promise<void> {
  const body = { name: 'caller', permissions: [], rules: [], ...grants };
  await manager.expect(200, 'PUT', `/applications/${callerId}`, { body });
}

const readsOf = async (id: string) =>
  (await logOf({ entity_id: id, operation: 'read' })).map(({ transform, request }) => [transform, request]);

beforeEach(async () => {
  const made = await makeApplication({ rules: [rule('reveal')] });
  ({ id: callerId, client: caller } = made);
});

describe('the repeat of a create', () => {
  it('shows only data that the caller may see at that time, and each answer is in the log', async () => {
    const send = repeatable(caller, 'POST', '/tokens', cardToken(number));
    const first = await send();
    expect(first.body.data).toMatchObject({ number });
    const again = await send();
    expect(again).toMatchObject({ status: 201, body: first.body });
    await grant({ rules: [rule('mask')] });
    expect((await send()).body.data).toMatchObject({ number: masked });
    await grant({ rules: [rule('redact')] });
    expect((await send()).body).not.toHaveProperty('data');
    const reads = await readsOf(first.body.id);
    expect(reads.reverse()).toEqual([
      ['reveal', 'createToken'],
      ['mask', 'createToken'],
      ['redact', 'createToken'],
    ]);
  });

  it('is refused once the right is withdrawn, which names the card in the log', async () => {
    const send = repeatable(caller, 'POST', '/tokens', cardToken(number));
    const { id } = (await send()).body;
    await grant({ rules: [rule('reveal', ['token:read'])] });
    expect((await send()).status).toBe(403);
    await grant({ rules: [{ ...rule('reveal'), container: '/elsewhere/' }] });
    const refused = await send();
    expect(refused.status).toBe(403);
    expect(refused.text).not.toContain(number.slice(-4));
    const denials = await logOf({ entity_id: id, operation: 'denied' });
    expect(denials.map((each) => [each.entity_type, each.request])).toEqual([['card', 'createToken']]);
  });

  it('contains no data of a deleted token, nor of another one with its id', async () => {
    const body = cardToken(number, { id: `own-${randomUUID()}` });
    const send = repeatable(caller, 'POST', '/tokens', body);
    const { id } = (await send()).body;
    await caller.expect(204, 'DELETE', `/tokens/${id}`);
    expect(await send()).toMatchObject({ status: 404 });
    await caller.expect(201, 'POST', '/tokens', { body });
    expect(await send()).toMatchObject({ status: 404 });
  });

  it('is refused once its caller is deleted', async () => {
    const send = repeatable(caller, 'POST', '/tokens', cardToken(number));
    await send();
    await manager.expect(204, 'DELETE', `/applications/${callerId}`);
    expect((await send()).status).toBe(401);
  });

  it('by a session is decided by the present rights of the session and its authorizer', async () => {
    const collector = await makeApplication({ type: 'public', permissions: ['token:create'] });
    const granted = { permissions: ['token:create', 'token:read'] };
    const session = await makeSession(collector.client, caller, granted);
    const send = repeatable(session, 'POST', '/tokens', cardToken(number));
    expect((await send()).body.data).toMatchObject({ number: masked });
    expect((await send()).body.data).toMatchObject({ number: masked });
    await grant({ rules: [rule('redact')] });
    expect((await send()).body).not.toHaveProperty('data');
    await grant({ rules: [rule('reveal', ['token:read'])] });
    expect((await send()).status).toBe(403);
  });
});

describe('the repeat of a create that was cut off before its answer was stored', () => {
  it('shows the present token, like a repeat, and stores the answer again', async () => {
    const send = repeatable(caller, 'POST', '/tokens', cardToken(number));
    const first = await send();
    await cutOff();
    expect(await send()).toMatchObject({ status: 201, body: first.body });
    await grant({ rules: [rule('mask')] });
    await cutOff();
    expect((await send()).body.data).toMatchObject({ number: masked });
    expect((await send()).body.data).toMatchObject({ number: masked });
    expect((await readsOf(first.body.id)).length).toBe(3);
  });

  it('makes no second token when the first was deleted, and shows no other with its id', async () => {
    const body = cardToken(number, { id: `own-${randomUUID()}` });
    for (const each of [cardToken(number), body]) {
      const send = repeatable(caller, 'POST', '/tokens', each);
      const { id } = (await send()).body;
      await cutOff();
      await caller.expect(204, 'DELETE', `/tokens/${id}`);
      expect(await send()).toMatchObject({ status: 404 });
    }
    await caller.expect(201, 'POST', '/tokens', { body });
    await cutOff();
    const again = repeatable(caller, 'POST', '/tokens', body);
    expect(await again()).toMatchObject({ status: 409 });
  });

  it('shows nothing of a token that was moved to where its caller may not create', async () => {
    await grant({ rules: [{ ...rule('reveal'), container: '/pci/' }] });
    const send = repeatable(caller, 'POST', '/tokens', cardToken(number));
    const { id } = (await send()).body;
    const mover = await makeApplication({ rules: [rule('reveal')] });
    await mover.client.expect(200, 'PATCH', `/tokens/${id}`, { body: { containers: ['/elsewhere/'] } });
    await cutOff();
    const refused = await send();
    expect(refused.text).not.toContain(number);
    expect(refused.status).toBe(403);
  });

  it('is the same for each token of a tokenize', async () => {
    const send = repeatable(caller, 'POST', '/tokenize', { one: cardToken(number), two: cardToken(number) });
    const first = (await send()).body as unknown as { one: Token };
    await cutOff();
    await grant({ rules: [rule('mask')] });
    const again = (await send()).body as unknown as { one: Token };
    expect(again.one).toMatchObject({ id: first.one.id, data: { number: masked } });
    await caller.expect(204, 'DELETE', `/tokens/${first.one.id}`);
    await cutOff();
    expect((await send()).status).toBe(404);
  });
});

describe('the repeat of an update', () => {
  it('shows the present token to a caller who may read it', async () => {
    const { body: token } = await caller.expect<Token>(201, 'POST', '/tokens', { body: cardToken(number) });
    const send = repeatable(caller, 'PATCH', `/tokens/${token.id}`, { metadata: { step: '1' } });
    expect((await send()).body).toMatchObject({ metadata: { step: '1' }, data: { number } });
    await caller.expect(200, 'PATCH', `/tokens/${token.id}`, { body: { metadata: { step: '2' } } });
    expect((await send()).body).toMatchObject({ metadata: { step: '2' }, data: { number } });
    await grant({ rules: [rule('reveal', ['token:update'])] });
    expect((await send()).body).not.toHaveProperty('data');
  });
});

describe('the repeat of tokenize', () => {
  it('shows its present tokens, and no token once one of them is deleted', async () => {
    const body = { bare: 'plain', card: cardToken(number) };
    const send = repeatable(caller, 'POST', '/tokenize', body);
    const first = (await send()).body as unknown as { bare: string; card: Token };
    expect(first.card.data).toMatchObject({ number });
    await grant({ rules: [rule('mask')] });
    const again = (await send()).body as unknown as { bare: string; card: Token };
    expect(again).toMatchObject({ bare: first.bare, card: { id: first.card.id, data: { number: masked } } });
    await caller.expect(204, 'DELETE', `/tokens/${first.bare}`);
    expect((await send()).status).toBe(404);
  });
});

describe('the repeat of a run of a reactor', () => {
  /** `value` is an expression: what its code returns. */
  const makeReactor = (value: string, more?: { application: { id: string } }): Promise<string> =>
    vault.makeReactor(`module.exports = async (req) => ${value}`, more);

  it('needs the right to use the tokens of the run, and is recorded as a use', async () => {
    const id = await makeCard(caller, number);
    const reactor = await makeReactor('({ raw: req.args })');
    const send = repeatable(caller, 'POST', `/reactors/${reactor}/react`, { args: { card: `{{ ${id} }}` } });
    expect((await send()).text).toContain(number);
    expect((await send()).text).toContain(number);
    expect(await logOf({ entity_id: id, operation: 'use' })).toHaveLength(2);
    await grant({ rules: [{ ...rule('reveal'), container: '/elsewhere/' }] });
    const refused = await send();
    expect(refused.status).toBe(403);
    expect(refused.text).not.toContain(number);
  });

  it('shows nothing once a token that it used is deleted', async () => {
    const id = await makeCard(caller, number);
    const reactor = await makeReactor('({ raw: req.args })');
    const send = repeatable(caller, 'POST', `/reactors/${reactor}/react`, { args: { card: `{{ ${id} }}` } });
    await send();
    await caller.expect(204, 'DELETE', `/tokens/${id}`);
    const repeated = await send();
    expect(repeated.status).toBe(404);
    expect(repeated.text).not.toContain(number);
  });

  it('shows nothing once a token that its code has read is deleted', async () => {
    const id = await makeCard(caller, number);
    const code = '({ raw: await req.svc.tokens.retrieve(req.args.id) })';
    const reactor = await makeReactor(code, { application: { id: callerId } });
    const send = repeatable(caller, 'POST', `/reactors/${reactor}/react`, { args: { id } });
    expect((await send()).text).toContain(number);
    expect((await send()).text).toContain(number);
    await caller.expect(204, 'DELETE', `/tokens/${id}`);
    const repeated = await send();
    expect(repeated.status).toBe(404);
    expect(repeated.text).not.toContain(number);
  });

  it('shows nothing once a token made of its output is deleted, and until then as masked', async () => {
    const reactor = await makeReactor('({ tokenize: { card: req.args.card } })');
    const args = { card: cardToken(number) };
    const send = repeatable(caller, 'POST', `/reactors/${reactor}/react`, { args });
    const first = (await send()).body as unknown as { tokens: { card: Token } };
    const again = (await send()).body as unknown as { tokens: { card: Token } };
    expect(again.tokens.card).toMatchObject({ id: first.tokens.card.id, data: { number: masked } });
    await caller.expect(204, 'DELETE', `/tokens/${first.tokens.card.id}`);
    expect((await send()).status).toBe(404);
  });

  describe('that was cut off before its answer was stored', () => {
    const reading = '({ raw: await req.svc.tokens.retrieve(req.args.id) })';

    it('shows nothing once a token that its code has read is deleted, nor when another has its id', async () => {
      const body = cardToken(number, { id: `own-${randomUUID()}` });
      const { id } = (await caller.expect<Token>(201, 'POST', '/tokens', { body })).body;
      const reactor = await makeReactor(reading, { application: { id: callerId } });
      const send = repeatable(caller, 'POST', `/reactors/${reactor}/react`, { args: { id } });
      expect((await send()).text).toContain(number);
      await cutOff();
      const again = await send();
      expect(again).toMatchObject({ status: 200 });
      expect(again.text).toContain(number);
      await cutOff();
      await caller.expect(204, 'DELETE', `/tokens/${id}`);
      expect(await send()).toMatchObject({ status: 404 });
      await caller.expect(201, 'POST', '/tokens', { body });
      await cutOff();
      const other = await send();
      expect(other.status).toBe(404);
      expect(other.text).not.toContain(number);
    });

    it('is recorded as a use, and judged by the right to use', async () => {
      const id = await makeCard(caller, number);
      const reactor = await makeReactor('({ raw: req.args })');
      const args = { card: `{{ ${id} }}` };
      const send = repeatable(caller, 'POST', `/reactors/${reactor}/react`, { args });
      await send();
      await cutOff();
      expect((await send()).text).toContain(number);
      expect(await logOf({ entity_id: id, operation: 'use' })).toHaveLength(2);
      await cutOff();
      await grant({ rules: [{ ...rule('reveal'), container: '/elsewhere/' }] });
      expect((await send()).status).toBe(403);
      await grant({ rules: [rule('reveal')] });
      await caller.expect(204, 'DELETE', `/tokens/${id}`);
      // Its arguments name a missing token.
      expect((await send()).status).toBe(400);
    });
  });

  it('runs again when the reactor chose a status of failure', async () => {
    const thrown = `{
      const { CustomHttpResponseError } = require('@token-vault/reactor');
      throw new CustomHttpResponseError({ status: 402, body: { at: Math.random() } });
    }`;
    const reactor = await makeReactor(thrown);
    const send = repeatable(caller, 'POST', `/reactors/${reactor}/react`, {});
    const [first, second] = [await send(), await send()];
    expect([first.status, second.status]).toEqual([402, 402]);
    expect(second.text).not.toBe(first.text);
  });
});

describe('the repeat of a management request', () => {
  const newApplication = { name: 'made', type: 'private', permissions: ['token:read'] };

  it('shows a key again and records it, while its caller may create applications and the application exists', async () => {
    const keeper = await makeApplication({
      name: 'keeper',
      type: 'management',
      permissions: ['application:create', 'application:read'],
    });
    const send = repeatable(keeper.client, 'POST', '/applications', {
      ...newApplication,
      type: 'management',
      permissions: ['application:read'],
    });
    const first = (await send()).body as unknown as Application;
    expect((await send()).body).toEqual(first);
    const reads = await logOf({ entity_id: first.id, operation: 'read' });
    expect(reads.map(({ request }) => request)).toEqual(['createApplication']);
    const body = { name: 'keeper', permissions: ['application:read'] };
    await manager.expect(200, 'PUT', `/applications/${keeper.id}`, { body });
    const refused = await send();
    expect(refused.status).toBe(403);
    expect(refused.text).not.toContain(first.key ?? 'none');
  });

  it('shows no key of an application with more permissions than its caller may give at that time', async () => {
    const held = ['application:create', 'application:read', 'log:read'];
    const keeper = await makeApplication({ name: 'keeper', type: 'management', permissions: held });
    const body = { name: 'made', type: 'management', permissions: ['log:read'] };
    const send = repeatable(keeper.client, 'POST', '/applications', body);
    const { key = 'none' } = (await send()).body as unknown as Application;
    const narrow = { name: 'keeper', permissions: ['application:create'] };
    await manager.expect(200, 'PUT', `/applications/${keeper.id}`, { body: narrow });
    const refused = await send();
    expect(refused.status).toBe(403);
    expect(refused.text).not.toContain(key);
  });

  it('shows no key of an application that was deleted', async () => {
    const send = repeatable(manager, 'POST', '/applications', newApplication);
    const { id } = (await send()).body;
    await manager.expect(204, 'DELETE', `/applications/${id}`);
    expect((await send()).status).toBe(404);
  });
});
