import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startVault, type RunningVault } from './running-vault.ts';

let vault: RunningVault;
let key: string;

beforeAll(async () => {
  vault = await startVault();
  const tokens = ['create', 'read', 'update', 'delete', 'search', 'use'].map((name) => `token:${name}`);
  const rule = {
    description: 'all',
    priority: 1,
    container: '/',
    transform: 'reveal',
    permissions: tokens,
  };
  const body = { name: 'backend', type: 'private', rules: [rule] };
  const made = await vault.must(201, {
    method: 'POST',
    path: '/applications',
    key: vault.managementKey,
    body,
  });
  key = String(made.key);
});
afterAll(() => vault.stop());

const alphabets = { Chinese: '漢', emoji: '😀', Arabic: 'ع', German: 'ü', quotes: '"' };

describe.each(Object.entries(alphabets))('an id in %s', (_name, letter) => {
  it.each([4, 400])('of %i characters serves every operation', async (length) => {
    const id = letter.repeat(length);
    const path = `/tokens/${encodeURIComponent(id)}`;
    const body = { type: 'token', id, data: 'secret', metadata: { a: 'b' } };
    const headers = { 'SVC-IDEMPOTENCY-KEY': id.slice(0, 10).replaceAll(/[^a-z]/g, 'k') + length };
    const made = await vault.must(201, { method: 'POST', path: '/tokens', key, body });
    expect(made.id).toBe(id);
    const patch = { metadata: { a: 'c' } };
    await vault.must(200, { method: 'PATCH', path, key, body: patch, headers });
    await vault.must(200, { method: 'PATCH', path, key, body: patch, headers });
    expect(await vault.must(200, { path, key })).toMatchObject({ id, data: 'secret', metadata: { a: 'c' } });
    const found = await vault.must<{ data: { id: string }[] }>(200, {
      method: 'POST',
      path: '/tokens/search',
      key,
      body: { query: `id:"${id.replaceAll('"', String.raw`\"`)}"` },
    });
    expect(found.data.map((token) => token.id)).toEqual([id]);
    await vault.must(409, { method: 'POST', path: '/tokens', key, body });
    await vault.must(204, { method: 'DELETE', path, key });
    await vault.must(404, { path, key });
    await vault.must(201, { method: 'POST', path: '/tokens', key, body });
    const logs = await vault.must<{ data: { operation: string }[] }>(200, {
      path: `/logs?entity_id=${encodeURIComponent(id)}`,
      key: vault.managementKey,
    });
    expect(logs.data.map(({ operation }) => operation)).toContain('delete');
  });
});

it('tokens made in one transaction are listed newest first', async () => {
  const leaves = ['z-first', 'a-second', 'm-third', 'b-fourth'];
  const made = leaves.map((id) => ({ type: 'bank', id, data: bank }));
  await vault.must(200, { method: 'POST', path: '/tokenize', key, body: made });
  const page = await vault.must<{ data: { id: string }[] }>(200, { path: '/tokens?type=bank', key });
  expect(page.data.map(({ id }) => id)).toEqual([...leaves].reverse());
  const second = await vault.must<{ data: { id: string }[] }>(200, {
    path: '/tokens?type=bank&size=2&page=2',
    key,
  });
  expect(second.data.map(({ id }) => id)).toEqual(['a-second', 'z-first']);
});

it('tokens that several requests made in one transaction are listed newest first', async () => {
  const employer = (id: string) => ({ type: 'employer_id_number', id, data: '12-3456789' });
  const post = <Body>(path: string, body?: unknown, headers = {}) =>
    vault.must<Body>(path === '/tokenize' ? 200 : 201, { method: 'POST', path, key, body, headers });
  const { id: transaction } = await post<{ id: string }>('/transactions');
  const headers = { 'SVC-TRANSACTION-ID': transaction };
  await post('/tokens', employer('n-first'), headers);
  await post('/tokenize', [employer('z-second'), employer('a-third')], headers);
  await post('/tokens', employer('y-fourth'), headers);
  await post('/tokens', employer('b-fifth'), headers);
  await vault.must(200, { method: 'POST', path: `/transactions/${transaction}/commit`, key });
  const page = await vault.must<{ data: { id: string }[] }>(200, {
    path: '/tokens?type=employer_id_number',
    key,
  });
  expect(page.data.map(({ id }) => id)).toEqual(['b-fifth', 'y-fourth', 'a-third', 'z-second', 'n-first']);
});

it.each(['metadata', 'data'])('16 parallel patches of different keys of %s all succeed', async (field) => {
  const path = `/tokens/patched-${field}`;
  const body = { type: 'token', id: `patched-${field}`, data: { a: 'b' }, metadata: { a: 'b' } };
  await vault.must(201, { method: 'POST', path: '/tokens', key, body });
  const keys = Array.from({ length: 16 }, (_, index) => `key-${index}`);
  const patches = keys.map((name) =>
    vault.call({ method: 'PATCH', path, key, body: { [field]: { [name]: 'x' } } }),
  );
  expect((await Promise.all(patches)).map(({ status }) => status)).toEqual(keys.map(() => 200));
  expect((await vault.must(200, { path, key }))[field]).toEqual({
    a: 'b',
    ...Object.fromEntries(keys.map((name) => [name, 'x'])),
  });
});
const bank = { routing_number: '110000000', account_number: '000123456789' };
