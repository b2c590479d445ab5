import type { Principal } from '@token-vault/access';
import type { Token, Transform } from '@token-vault/contracts';
import { createExpressions, createInlineWorkers } from '@token-vault/expressions';
import { createAuditTrail, createRequestContext, type StoredToken } from '@token-vault/operations';
import { beforeEach, describe, expect, it } from 'vitest';
import { createTokenReplay } from '../../src/index.ts';
import { anyone, card, noActor, useVault, type TestVault } from './vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));
let made: Token;
beforeEach(async () => {
  const body = { id: 'tok', type: 'card', data: { number: card, cvc: '123' } };
  made = await vault.create({ ...body, expires_at: '2030-01-01T02:00:00Z' });
});

const number = { number: card };

/** Shows the only token of a stored answer again. */
async function repeat(by: StoredToken['by'], principal: Principal = vault.principal, transactionId?: string) {
  const { log: store, keyRing, clock } = vault;
  const expressions = createExpressions(createInlineWorkers());
  const replay = createTokenReplay({
    store,
    keyRing,
    clock,
    expressions,
    audit: createAuditTrail(store),
    findActor: noActor,
  });
  const context = createRequestContext({ principal, traceId: 'again', now: clock.now(), transactionId });
  const tokens = [{ id: 'tok', createdAt: made.created_at ?? '', at: [], by }];
  const shown = await replay.show(tokens, context, { present: async () => context, isOnRecord: false });
  return shown.map((each) => each?.token);
}

const showings = async () =>
  (await vault.events()).filter(({ type }) => type === 'TokensRead').map(({ data }) => data);

describe('the repeat of a create', () => {
  it.each(['create', 'use', 'seen', 'output'] as const)(
    'shows nothing of a token that has expired, nor records a read (%s)',
    async (by) => {
      vault.clock.set('2030-01-01T01:59:59.999Z');
      await repeat(by);
      const before = await showings();
      vault.clock.set('2030-01-01T02:00:00Z');
      await expect(repeat(by)).rejects.toMatchObject({ code: 'not_found' });
      expect(await showings()).toEqual(before);
    },
  );

  it('shows no cvc that has ended', async () => {
    vault.clock.set('2030-01-01T00:59:59.999Z');
    expect(await repeat('create')).toMatchObject([{ data: { ...number, cvc: '123' } }]);
    vault.clock.set('2030-01-01T01:00:00Z');
    const [shown] = await repeat('create');
    expect(shown?.data).toEqual(number);
  });
});

describe('the repeat of an update whose caller has other rights meanwhile', () => {
  const seeing = (transform: Transform, readable = true): Principal => ({
    ...vault.principal,
    rules: anyone().rules.map((rule) => ({
      ...rule,
      transform,
      permissions: rule.permissions.filter((permission) => readable || permission !== 'token:read'),
    })),
  });

  it.each<[Transform, boolean, Transform]>([
    ['reveal', true, 'reveal'],
    ['mask', true, 'mask'],
    ['redact', true, 'redact'],
    ['reveal', false, 'redact'],
  ])('(%s, may read: %s) has %s in the log, and shows no more', async (transform, readable, told) => {
    await vault.update('tok', { metadata: { a: 'b' } });
    const [shown] = await repeat('update', seeing(transform, readable));
    const tokens = [{ token_id: 'tok', token_type: 'card', transform: told }];
    expect(await showings()).toEqual([{ operation: 'read', tokens }]);
    const seen = { reveal: card, mask: `XXXXXXXXXXXX${card.slice(-4)}`, redact: undefined };
    expect((shown?.data as { number?: string } | undefined)?.number).toBe(seen[told]);
  });
});

describe('a repeat for a caller that may not read the token', () => {
  const creator = (): Principal => ({ ...vault.principal, permissions: ['token:create'], rules: [] });
  const named = () => ({ id: 'tok', type: 'card', tenant_id: made.tenant_id });
  const namedFields = ['created_at', 'created_by', 'id', 'tenant_id', 'type'];

  it('shows the fingerprint of a duplicate while the token is as it was made', async () => {
    const [shown] = await repeat('duplicate-of-create', creator());
    expect(shown).toEqual({ ...named(), fingerprint: made.fingerprint, containers: made.containers });
  });

  it.each(['create', 'output', 'duplicate-of-create', 'duplicate-of-update'] as const)(
    'shows only who made the token and when, once others have changed it (%s)',
    async (by) => {
      const patch = { data: { number: '5555555555554444' }, containers: ['/moved/'] };
      await vault.update('tok', { ...patch, metadata: { of: 'others' } });
      const [shown] = await repeat(by, creator());
      expect(shown).toMatchObject(named());
      const fields = Object.entries(shown ?? {}).flatMap(([name, value]) =>
        value === undefined ? [] : [name],
      );
      expect(namedFields).toEqual(expect.arrayContaining(fields));
      expect(await repeat(by)).toMatchObject([{ ...named(), containers: ['/moved/'] }]);
    },
  );
});

describe('the repeat of an invocation whose reactor made the token', () => {
  const user: () => Principal = () => ({ ...vault.principal, permissions: ['token:use'], rules: [] });

  it('shows it masked at most, and only to a caller that may read it', async () => {
    const [hidden] = await repeat('output', user());
    expect(hidden).toMatchObject({ id: 'tok', type: 'card' });
    expect(hidden).not.toHaveProperty('data');
    expect(hidden).not.toHaveProperty('fingerprint');
    const [shown] = await repeat('output');
    expect(shown?.data).toMatchObject({ number: `XXXXXXXXXXXX${card.slice(-4)}` });
  });

  it('shows no data that other callers have written since, unless the caller may read it', async () => {
    await vault.update('tok', { data: { number: '5555555555554444' } });
    const [hidden] = await repeat('output', user());
    expect(hidden).not.toHaveProperty('data');
    const [shown] = await repeat('output');
    expect(shown?.data).toMatchObject({ number: 'XXXXXXXXXXXX4444' });
    expect(await showings()).toMatchObject([
      { tokens: [{ transform: 'redact' }] },
      { tokens: [{ transform: 'mask' }] },
    ]);
  });
});

describe('a repeat that names a transaction', () => {
  const other = (): Principal => ({
    ...vault.principal,
    actor: { kind: 'application', id: 'other' },
    applicationId: 'other',
  });

  it.each(['create', 'update', 'duplicate-of-create', 'use', 'output'] as const)(
    'shows uncommitted data only to the caller that opened the transaction (%s)',
    async (by) => {
      const transaction = await vault.begin();
      await vault.update('tok', { metadata: { is: 'uncommitted' } }, { transaction });
      const [own] = await repeat(by, vault.principal, transaction);
      const [others] = await repeat(by, other(), transaction);
      if (by !== 'use') expect(own?.metadata).toEqual({ is: 'uncommitted' });
      expect(others?.metadata).toBeUndefined();
      await vault.end('rollback', transaction);
    },
  );
});
