import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { event, tenantCreated, tokenCreated, tokenDeleted, tokenUpdated, tenantId } from './events.ts';
import { openVault, type Vault } from './vault.ts';

let vault: Vault;
beforeEach(async () => {
  vault = await openVault();
});
afterEach(() => vault.close());

describe('the read models', () => {
  it('hold what the log says', async () => {
    vault.start();
    await vault.append(
      tenantCreated(),
      tokenCreated('a', { token_type: 'card', metadata: { Color: 'RED' }, mask: { b: 1, a: 'x' } }),
      tokenCreated('b'),
    );
    await vault.reached(
      await vault.append(tokenUpdated('a', { metadata: { Size: 'XL' } }), tokenDeleted('b')),
    );
    expect(await vault.rows('select tenant_id, id, metadata, mask from rm_tokens.token')).toEqual([
      { tenant_id: tenantId, id: 'a', metadata: '{"Size":"XL"}', mask: null },
    ]);
    expect(await vault.rows('select key, value from rm_tokens.token_metadata')).toEqual([
      { key: 'Size', value: 'xl' },
    ]);
    expect(await vault.rows('select container, type, count::int from rm_tokens.token_count')).toEqual([
      { container: '/general/high/', type: 'card', count: 1 },
    ]);
    expect(
      await vault.rows(
        'select seq, entity_type, entity_id, operation, message from rm_log.entry order by seq',
      ),
    ).toMatchObject([
      { entity_type: 'tenant', operation: 'create', message: 'Tenant created' },
      { entity_type: 'card', entity_id: 'a', operation: 'create', message: 'Token created' },
      { entity_type: 'token', entity_id: 'b', operation: 'create' },
      { entity_type: 'token', entity_id: 'a', operation: 'update' },
      { entity_type: 'token', entity_id: 'b', operation: 'delete' },
    ]);
  });

  it('keep the key of every session, so that its use can be told whatever became of it', async () => {
    vault.start();
    const session = (digit: string) => `00000000-0000-4000-8000-0000000000${digit}`;
    const opened = (digit: string) =>
      event('SessionOpened', {
        session_id: session(digit),
        application_id: session('a1'),
        key_hash: digit.repeat(32),
        nonce_hash: digit.repeat(32),
        expires_at: '2030-01-01T11:00:00Z',
      });
    await vault.append(
      opened('c1'),
      opened('c2'),
      event('SessionAuthorized', {
        session_id: session('c2'),
        authorized_by: session('a2'),
        permissions: [],
        rules: [],
        expires_at: '2030-01-01T12:00:00Z',
      }),
    );
    await vault.reached(
      await vault.append(
        event('SessionExpired', { session_id: session('c1') }),
        event('ApplicationDeleted', { application_id: session('a1') }),
      ),
    );
    expect(await vault.rows('select id from rm_applications.session')).toEqual([]);
    expect(
      await vault.rows('select session_id, key_hash, reason from rm_applications.session_key order by 1'),
    ).toEqual([
      { session_id: session('c1'), key_hash: 'c1'.repeat(32), reason: 'not_authorized' },
      { session_id: session('c2'), key_hash: 'c2'.repeat(32), reason: 'ended' },
    ]);
  });

  it('keep the key of a deleted application as one that was valid', async () => {
    vault.start();
    const id = '00000000-0000-4000-8000-0000000000b1';
    const [first, second] = ['1'.repeat(64), '2'.repeat(64)];
    await vault.append(
      event('ApplicationCreated', {
        application_id: id,
        name: 'App',
        type: 'private',
        key_hash: first,
        permissions: ['token:read'],
        rules: [],
      }),
      event('ApplicationKeyRegenerated', { application_id: id, key_hash: second }),
    );
    await vault.reached(await vault.append(event('ApplicationDeleted', { application_id: id })));
    expect(await vault.rows('select id from rm_applications.application')).toEqual([]);
    expect(
      await vault.rows('select key_hash, reason, application_id from rm_applications.retired_key order by 1'),
    ).toEqual([
      { key_hash: first, reason: 'regenerated', application_id: id },
      { key_hash: second, reason: 'deleted', application_id: id },
    ]);
  });
});
