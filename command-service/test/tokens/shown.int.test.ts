import type { Principal } from '@token-vault/access';
import type { Transform } from '@token-vault/contracts';
import { beforeEach, describe, expect, it } from 'vitest';
import { anyone, card, useVault, type TestVault } from './vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));

const body = { id: 'tok', type: 'card', data: { number: card, cvc: '123' } };
const seeing = (transform: Transform): Principal => ({
  ...vault.principal,
  rules: anyone().rules.map((rule) => ({ ...rule, transform })),
});
const without = (...taken: string[]): Principal => ({
  ...vault.principal,
  rules: anyone().rules.map((rule) => ({
    ...rule,
    permissions: rule.permissions.filter((permission) => !taken.includes(permission)),
  })),
});

/** The events from which the log makes its entries of shown tokens, with the transform of each. */
async function told(): Promise<unknown[]> {
  const events = await vault.events();
  return events.flatMap(({ type, data, metadata }): unknown[] => {
    const where = metadata.transaction_id === undefined ? '' : ' (enlisted)';
    if (type === 'TokenCreated' || type === 'TokenUpdated')
      return [`${type} ${JSON.stringify(data['shown']) ?? 'nothing said'}${where}`];
    return type === 'TokensRead' ? [{ ...data, where }] : [];
  });
}

describe('the event of a write records the transform of its answer', () => {
  it.each<[Transform, string]>([
    ['reveal', '"reveal"'],
    ['mask', '"mask"'],
    ['redact', '"redact"'],
  ])('by a rule that says %s', async (transform, shown) => {
    await vault.create(body, { as: seeing(transform) });
    await vault.update('tok', { metadata: { a: 'b' } }, { as: seeing(transform) });
    expect(await told()).toEqual([`TokenCreated ${shown}`, `TokenUpdated ${shown}`]);
  });

  it('which is nothing when the token is masked and has no mask', async () => {
    await vault.create({ type: 'token', data: 'x', id: 'tok' }, { as: seeing('mask') });
    await vault.update('tok', { metadata: { a: 'b' } }, { as: seeing('mask') });
    expect(await told()).toEqual(['TokenCreated "redact"', 'TokenUpdated "redact"']);
  });

  it('which for a tokenized leaf is its id only', async () => {
    await vault.tokenize({ leaf: 'secret' });
    await vault.tokenize({ type: 'token', data: 'secret' });
    expect(await told()).toEqual(['TokenCreated "redact"', 'TokenCreated "reveal"']);
  });

  it('but in a transaction that may be rolled back, the reading of existing data is recorded at once', async () => {
    await vault.create(body);
    const transaction = await vault.begin();
    await vault.update('tok', { metadata: { a: 'b' } }, { transaction });
    await vault.end('rollback', transaction);
    const tokens = [{ token_id: 'tok', token_type: 'card', transform: 'reveal' }];
    expect(await told()).toEqual([
      'TokenCreated "reveal"',
      'TokenUpdated nothing said (enlisted)',
      { operation: 'read', tokens, where: '' },
    ]);
  });

  it('keeps it out of the token', async () => {
    await vault.create(body);
    await vault.update('tok', { metadata: { a: 'b' } }, { as: seeing('mask') });
    expect(await vault.stored('tok')).not.toHaveProperty('content.shown');
  });
});

describe('a probe by deduplication is recorded', () => {
  const probe = { type: 'card', data: { number: card }, deduplicate_token: true };
  const met = (transform: Transform) => ({
    operation: 'deduplicate',
    tokens: [{ token_id: 'tok', token_type: 'card', transform }],
    where: '',
  });
  beforeEach(() => vault.create({ ...body, deduplicate_token: true }));

  it.each<Transform>(['reveal', 'mask', 'redact'])(
    'of a caller that is shown it by %s',
    async (transform) => {
      await vault.create(probe, { as: seeing(transform) });
      expect((await told()).slice(1)).toEqual([met(transform)]);
    },
  );

  it('of a caller without token:read, who learns that the token exists', async () => {
    await vault.create(probe, { as: without('token:read') });
    expect((await told()).slice(1)).toEqual([met('redact')]);
  });

  it('of an update that would make an equal token', async () => {
    await vault.create({ id: 'other', type: 'card', data: { number: '5555555555554444' } });
    const patch = { data: { number: card }, deduplicate_token: true };
    await vault.update('other', patch, { as: without('token:read') });
    // The answer reveals that the patched token would have the same data.
    const patched = { token_id: 'other', token_type: 'card', transform: 'reveal' };
    expect((await told()).slice(2)).toEqual([
      met('redact'),
      { operation: 'read', tokens: [patched], where: '' },
    ]);
  });
});

describe('tokens made by a session', () => {
  const authorizer = '00000000-0000-4000-8000-0000000000aa';
  const session = (): Principal => ({
    ...vault.principal,
    actor: { kind: 'session', id: '00000000-0000-4000-8000-0000000000bb' },
    authorizedBy: authorizer,
  });

  it('names the application that authorised it as its creator, also when it is updated', async () => {
    expect((await vault.create(body, { as: session() })).created_by).toBe(authorizer);
    expect((await vault.update('tok', { metadata: { a: 'b' } }, { as: session() })).modified_by).toBe(
      authorizer,
    );
    const opened = await vault.call('createTransaction', {}, { as: session() });
    expect(opened.body).toMatchObject({ created_by: authorizer });
  });

  it('belong to the session: another session of the same application does not find its transaction', async () => {
    const transaction = await vault.begin({ as: session() });
    const other = { ...session(), actor: { kind: 'session', id: 'another' } as const };
    await expect(vault.end('commit', transaction, { as: other })).rejects.toMatchObject({ status: 404 });
    await vault.end('commit', transaction, { as: session() });
  });
});

describe('a create repeated under its idempotency key, whose first answer was lost', () => {
  const again = { idempotencyKey: 'k' };

  it('shows later changes by others only with a log entry', async () => {
    await vault.create(body, again);
    await vault.update('tok', { data: { expiration_month: 3 } }, { as: seeing('redact') });
    expect(await vault.create(body, again)).toMatchObject({ data: { number: card, expiration_month: 3 } });
    const tokens = [{ token_id: 'tok', token_type: 'card', transform: 'reveal' }];
    expect((await told()).at(-1)).toEqual({ operation: 'read', tokens, where: '' });
  });

  it('shows them with an entry also when both attempts run at once and the first one is slow', async () => {
    const [held, reached] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    vault.faults.interpose = async (stream) => {
      if (!stream.startsWith('token-')) return;
      vault.faults.interpose = async () => undefined;
      reached.resolve();
      await held.promise;
    };
    const slow = vault.create(body, again);
    await reached.promise;
    await vault.create(body, { ...again, on: vault.replica() });
    await vault.update('tok', { data: { expiration_month: 3 } }, { as: seeing('redact') });
    held.resolve();
    expect(await slow).toMatchObject({ data: { number: card, expiration_month: 3 } });
    const tokens = [{ token_id: 'tok', token_type: 'card', transform: 'reveal' }];
    expect((await told()).at(-1)).toEqual({ operation: 'read', tokens, where: '' });
  });

  it('has a log entry like any repeat, also when its answer equals the first one', async () => {
    await vault.create(body, again);
    await vault.create(body, again);
    const tokens = [{ token_id: 'tok', token_type: 'card', transform: 'reveal' }];
    expect(await told()).toEqual(['TokenCreated "reveal"', { operation: 'read', tokens, where: '' }]);
  });
});
