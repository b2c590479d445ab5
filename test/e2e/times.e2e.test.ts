import { afterAll, beforeAll, expect, it } from 'vitest';
import { startVault, type Call, type RunningVault } from './running-vault.ts';

let vault: RunningVault;
let key: string;

beforeAll(async () => {
  vault = await startVault();
  const permissions = ['token:create', 'token:read', 'token:update'];
  const body = { name: 'backend', type: 'private', permissions };
  key = String((await send('/applications', body, vault.managementKey)).key);
});
afterAll(() => vault.stop());

const send = (path: string, body: object, by = key, headers: Call['headers'] = {}) =>
  vault.must(201, { method: 'POST', path, key: by, body, headers });

// Postgres refuses the second offset, and stopped the read model of the token or of the callers for good.
it.each(['+14:00', '+16:00', '-23:59'])(
  'an end of time with the offset %s is accepted everywhere',
  async (offset) => {
    const expires_at = `2033-01-01T00:00:00.123456789${offset}`;
    const seen = { expires_at };
    const token = { type: 'token', data: 'x', expires_at };
    const made = await send('/tokens', token);
    const path = `/tokens/${String(made.id)}`;
    await vault.must(200, { method: 'PATCH', path, key, body: seen });
    const { id: transaction } = await send('/transactions', {});
    const inside = await send('/tokens', token, key, { 'SVC-TRANSACTION-ID': String(transaction) });
    await vault.must(200, { method: 'POST', path: `/transactions/${String(transaction)}/commit`, key });
    const granted = { name: 'short', type: 'private', permissions: ['token:read'], expires_at };
    const other = await send('/applications', granted, vault.managementKey);
    await send(`/applications/${String(other.id)}/keys`, seen, vault.managementKey);
    for (const id of [made.id, inside.id])
      expect(await vault.must(200, { path: `/tokens/${String(id)}`, key })).toMatchObject(seen);
    await vault.must(200, { path: `/tokens?id=${String(made.id)}`, key: String(other.key) });
  },
);

it('a session may end at a time with any offset', async () => {
  const page = { name: 'page', type: 'public', permissions: ['token:create'] };
  const { key: publicKey } = await send('/applications', page, vault.managementKey);
  const opened = await vault.must(201, { method: 'POST', path: '/sessions', key: String(publicKey) });
  const at = new Date(Date.now() + 3_600_000 + 16 * 3_600_000).toISOString().replace('Z', '+16:00');
  const body = { nonce: opened.nonce, permissions: ['token:read'], expires_at: at };
  await vault.must(200, { method: 'POST', path: '/sessions/authorize', key, body });
  await vault.must(200, { path: '/tokens', key: String(opened.session_key) });
});

it('a time with more than nine digits after the second is refused by name', async () => {
  const expires_at = `2033-01-01T00:00:00.${'0'.repeat(10)}+00:00`;
  const call = { method: 'POST', path: '/applications', key: vault.managementKey };
  const body = { name: 'short', type: 'private', permissions: ['token:read'], expires_at };
  expect(await vault.must(400, { ...call, body })).toMatchObject({
    errors: { expires_at: [expect.stringContaining('nine digits')] },
  });
  await vault.must(400, { ...call, path: '/tokens', key, body: { type: 'token', data: 'x', expires_at } });
});
