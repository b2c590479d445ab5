import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { event, tenantCreated, tokenCreated, tokenDeleted, tokenUpdated, tenantId } from './events.ts';
import { openVault, streamOf, type Vault } from './vault.ts';

let vault: Vault;
beforeEach(async () => {
  vault = await openVault();
});
afterEach(() => vault.close());

describe('the read models', () => {
  it('are equal to the log', async () => {
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

  it('leave out an event of a signed entity that is in the stream of another one', async () => {
    vault.start();
    await vault.append(tokenCreated('a'), tokenCreated('b'));
    const copied = [
      tokenCreated('a', { containers: ['/mine/'] }),
      tokenUpdated('a', { containers: ['/mine/'] }),
      tokenDeleted('a'),
    ];
    const transactionId = '00000000-0000-4000-8000-0000000000c1';
    const enlisted = tokenDeleted('a', { transaction_id: transactionId });
    await vault.store.append(streamOf(tokenCreated('b')), [...copied, enlisted], 'any');
    const own = { transaction_id: '00000000-0000-4000-8000-0000000000c2' };
    await vault.append(tokenUpdated('a', { containers: ['/mine/'] }, own));
    await vault.store.append(streamOf(tokenCreated('b')), [event('TransactionCommitted', own)], 'any');
    await vault.reached(
      await vault.append(event('TransactionCommitted', { transaction_id: transactionId }), tokenDeleted('b')),
    );
    expect(await vault.rows('select id, container from rm_tokens.token')).toEqual([
      { id: 'a', container: '/general/high/' },
    ]);
    const entries = await vault.rows<{ operation: string }>(
      `select operation from rm_log.entry where entity_type = 'token' order by seq`,
    );
    expect(entries.map(({ operation }) => operation)).toEqual(['create', 'create', 'delete']);
  });

  // Postgres refuses offsets of 16 hours and more, and long texts. The entrances have accepted them, so logs have them for ever.
  it.each([
    ['an offset of 16 hours', '2030-01-01T00:00:00+16:00'],
    ['the largest offset', '9999-12-31T23:59:59-23:59'],
    ['300 digits of a second', `2030-01-01T00:00:00.${'9'.repeat(300)}+14:00`],
  ])('store a time with %s, wherever it stands', async (_what, expires_at) => {
    vault.start();
    const transaction_id = '00000000-0000-4000-8000-0000000000c1';
    const opened = { transaction_id, expires_at: '2030-01-01T12:00:00Z' };
    await vault.append(
      tokenCreated('a', { expires_at, cvc_expires_at: expires_at }),
      tokenCreated('b'),
      tokenUpdated('b', { expires_at }),
      event('TransactionOpened', opened),
      tokenCreated('c', { expires_at }, { transaction_id }),
      event('ApplicationCreated', {
        application_id: '00000000-0000-4000-8000-0000000000a1',
        name: 'Shop',
        type: 'private',
        key_hash: 'a'.repeat(64),
        permissions: ['token:read'],
        rules: [],
        expires_at,
      }),
    );
    await vault.reached(await vault.append(event('TransactionCommitted', { transaction_id })));
    const rows = await vault.rows<{ id: string; at: Date }>(
      `select id, expires_at as at from rm_tokens.token
       union all select name, expires_at from rm_applications.application order by id`,
    );
    const stored = rows.map(({ id, at }) => [id, Math.abs(at.getTime() - Date.parse(expires_at))]);
    expect(stored).toEqual(['a', 'b', 'c', 'Shop'].toSorted().map((id) => [id, 0]));
  });

  it('leave out a second opening of a transaction', async () => {
    vault.start();
    const opened = (at: string) =>
      event('TransactionOpened', {
        transaction_id: '00000000-0000-4000-8000-0000000000c1',
        expires_at: `2030-01-01T${at}Z`,
      });
    await vault.append(opened('11:00:00'));
    await vault.reached(await vault.append(opened('12:00:00')));
    expect(await vault.rows(`select expires_at::text from rm_transactions.transaction`)).toEqual([
      { expires_at: '2030-01-01 11:00:00+00' },
    ]);
  });

  it('keep the key of every session, so that its use can be recorded also after the end of the session', async () => {
    vault.start();
    const session = (digit: string) => `00000000-0000-4000-8000-0000000000${digit}`;
    const opened = (digit: string) =>
      event('SessionOpened', {
        session_id: session(digit),
        application_id: session('a1'),
        key_hash: digit.repeat(32),
        nonce_hash: digit.repeat(32),
        expires_at: '2030-01-01T11:00:00Z',
        opener_key_hash: 'e1'.repeat(32),
      });
    await vault.reached(
      await vault.append(
        opened('c1'),
        opened('c2'),
        event('SessionAuthorized', {
          session_id: session('c2'),
          authorized_by: session('a2'),
          permissions: [],
          rules: [],
          expires_at: '2030-01-01T12:00:00Z',
          authorizer_key_hash: 'e2'.repeat(32),
        }),
      ),
    );
    expect(
      await vault.rows(
        'select opener_key_hash, authorizer_key_hash from rm_applications.session where is_authorized',
      ),
    ).toEqual([{ opener_key_hash: 'e1'.repeat(32), authorizer_key_hash: 'e2'.repeat(32) }]);
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

  it('keep every key that an application had, also one without a main key', async () => {
    vault.start();
    const id = '00000000-0000-4000-8000-0000000000b2';
    const key_id = '00000000-0000-4000-8000-0000000000b3';
    const [first, second, third] = ['3'.repeat(64), '4'.repeat(64), '5'.repeat(64)];
    const kept = { id, hash: first, created_at: '2030-01-01T00:00:00Z', expires_at: '2030-01-02T00:00:00Z' };
    const other = { id: key_id, hash: third, created_at: '2030-01-01T00:00:00Z' };
    const at = { application_id: id };
    await vault.append(
      event('ApplicationCreated', {
        ...at,
        name: 'App',
        type: 'private',
        key_hash: first,
        permissions: ['token:read'],
        rules: [],
      }),
      event('ApplicationKeyRegenerated', {
        ...at,
        key_hash: second,
        key_id,
        keys: [kept],
        kept_key_hash: first,
      }),
      event('ApplicationKeyAdded', { ...at, key_id, key_hash: third, keys: [kept, other] }),
      event('ApplicationKeyDeleted', { ...at, key_id: id, key_hash: first, was_main: false, keys: [other] }),
    );
    const last = { ...at, key_id, key_hash: second, was_main: true, keys: [other] };
    await vault.reached(await vault.append(event('ApplicationKeyDeleted', last)));
    expect(
      await vault.rows(`select key_hash, key_id, keys from rm_applications.application where id = '${id}'`),
    ).toEqual([{ key_hash: null, key_id: null, keys: [other] }]);
    await vault.reached(await vault.append(event('ApplicationDeleted', at)));
    expect(
      await vault.rows(
        `select key_hash, reason from rm_applications.application_key where application_id = '${id}' order by 1`,
      ),
    ).toEqual([
      { key_hash: first, reason: 'deleted' },
      { key_hash: third, reason: 'expired' },
    ]);
    expect(
      await vault.rows(
        `select key_hash, reason from rm_applications.retired_key where application_id = '${id}'`,
      ),
    ).toEqual([{ key_hash: second, reason: 'deleted' }]);
  });
});
