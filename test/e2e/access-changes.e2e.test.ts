import pg from 'pg';
import { expect, it } from 'vitest';
import { waitUntil } from '@token-vault/test-support';
import { startVault } from './running-vault.ts';

it('other replicas get notifications of a changed application, tenant or session from the read models', async () => {
  const vault = await startVault();
  const listener = new pg.Client(vault.databaseUrl);
  try {
    await listener.connect();
    await listener.query('listen access_changed');
    let heard = 0;
    listener.on('notification', () => (heard += 1));
    const key = vault.managementKey;
    const makes = async (cause: () => Promise<unknown>) => {
      const before = heard;
      await cause();
      await waitUntil(() => heard > before, { what: 'access_changed' });
    };
    const application = { name: 'a', type: 'private', permissions: ['token:create'] };
    const made = await vault.must(201, { method: 'POST', path: '/applications', key, body: application });
    const path = `/applications/${String(made.id)}`;
    const body = { name: 'b', permissions: ['token:read'] };
    await makes(() => vault.must(200, { method: 'PUT', path, key, body }));
    await makes(() => vault.must(200, { method: 'PUT', path: '/tenants/self', key, body: { name: 'n' } }));
    const opener = { name: 'p', type: 'public', permissions: ['token:create'] };
    const { key: publicKey } = await vault.must(201, {
      method: 'POST',
      path: '/applications',
      key,
      body: opener,
    });
    const session = await vault.must(201, { method: 'POST', path: '/sessions', key: String(publicKey) });
    const grant = { nonce: session.nonce, permissions: ['token:read'] };
    const again = await vault.must(200, { method: 'POST', path: `${path}/regenerate`, key });
    await makes(() =>
      vault.must(200, { method: 'POST', path: '/sessions/authorize', key: String(again.key), body: grant }),
    );
    await makes(() => vault.must(204, { method: 'DELETE', path, key }));
    expect((await vault.call({ path: '/applications/key', key: String(again.key) })).status).toBe(401);
  } finally {
    await listener.end();
    await vault.stop();
  }
});
