import { randomUUID } from 'node:crypto';
import type { Application, Reactor, Token } from '@token-vault/contracts';
import {
  cardNumber,
  cardToken,
  type Client,
  createDataDirectory,
  removeDataDirectory,
  startStandaloneProcess,
  waitUntil,
} from '@token-vault/test-support';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const number = cardNumber();
const rule = (changes: object = {}) => ({
  description: 'of the test',
  priority: 1,
  container: '/',
  transform: 'reveal',
  permissions: ['token:create', 'token:read', 'token:update'],
  ...changes,
});

let dataDir: string;
let manager: Client;
let database: pg.Client;

beforeAll(async () => {
  dataDir = await createDataDirectory();
  const vault = await startStandaloneProcess({ dataDir });
  manager = vault.client();
  database = new pg.Client(await vault.databaseUrl());
  await database.connect();
});
afterAll(async () => {
  await database.end();
  await removeDataDirectory(dataDir);
});

function repeatable(client: Client, method: string, path: string, body: object) {
  const headers = { 'SVC-IDEMPOTENCY-KEY': randomUUID() };
  return () => client.request(method, path, { headers, body });
}

/**
 * As if the process had died between the append and the answer of the requests so far. Waits until their answers are
 * stored, which may be a moment after they were sent.
 */
async function cutOff(): Promise<void> {
  const held = `select from idempotency.answer where answer is null and held_until > '-infinity'`;
  await waitUntil(async () => (await database.query(held)).rowCount === 0, { what: 'answers stored' });
  await database.query(`update idempotency.answer set answer = null, held_until = '-infinity'`);
}

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
    const body = { name: 'a', type: 'private', permissions: ['token:create'] };
    const { id } = (await manager.expect<Application>(201, 'POST', '/applications', { body })).body;
    const path = `/applications/${id}`;
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
    const bodyOf = (value: number) => ({ name: 'r', configuration: {}, code: codeOf(value) });
    const { id } = (await manager.expect<Reactor>(201, 'POST', '/reactors', { body: bodyOf(0) })).body;
    const path = `/reactors/${id}`;
    const send = repeatable(manager, method, path, bodyOf(1));
    await repeatAfter(send, () => manager.expect(200, 'PUT', path, { body: bodyOf(2) }));
    expect((await manager.expect<Reactor>(200, 'GET', path)).body.code).toBe(codeOf(2));
  });

  it('does not show again data that was hidden since, and shows the present token', async () => {
    const body = { name: 'a', type: 'private', rules: [rule()] };
    const { key } = (await manager.expect<Application>(201, 'POST', '/applications', { body })).body;
    const caller = manager.withKey(key ?? '');
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
    const make = async (body: object) =>
      manager.withKey(
        (await manager.expect<Application>(201, 'POST', '/applications', { body })).body.key ?? '',
      );
    const opener = await make({ name: 'o', type: 'public', permissions: ['token:create'] });
    const authorizer = await make({ name: 'p', type: 'private', rules: [rule()] });
    const { nonce } = (await opener.expect<{ nonce: string }>(201, 'POST', '/sessions')).body;
    const grant = { nonce, permissions: ['token:create'] };
    const repeat = await repeatAfter(repeatable(authorizer, 'POST', '/sessions/authorize', grant), cutOff);
    expect(repeat.status).toBe(200);
  });
});
