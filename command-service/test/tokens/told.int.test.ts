import { randomUUID } from 'node:crypto';
import type { Principal } from '@token-vault/access';
import type { AccessRule, TokenShowing } from '@token-vault/contracts';
import { createExpressions, createInlineWorkers } from '@token-vault/expressions';
import {
  createAuditTrail,
  createRequestContext,
  DataDependentError,
  namedTokens,
  type Answer,
  type AnswerToken,
} from '@token-vault/operations';
import { beforeEach, describe, expect, it } from 'vitest';
import { createTokenReplay } from '../../src/index.ts';
import { createSeenTokens } from '../../src/tokens/seen.ts';
import { anyone, noActor, useVault, type TestVault } from './vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));
beforeEach(async () => {
  await vault.create({ type: 'token', data: 'x', id: 'tok', containers: ['/secret/'] });
});

const rule = (changes: Partial<AccessRule>): AccessRule => ({
  description: undefined,
  priority: 1,
  container: '/secret/',
  conditions: undefined,
  transform: 'reveal',
  permissions: ['token:update', 'token:search'],
  ...changes,
});

/** Whether the result of a run may be shown. Its code got information about the token, and its application has these rules. */
async function isShown(shown: Partial<TokenShowing>, rules: readonly AccessRule[]): Promise<boolean> {
  const { log: store, keyRing, clock } = vault;
  const application: Principal = { ...anyone({ tenant: vault.principal.tenant }), rules };
  const decide = createSeenTokens({
    store,
    keyRing,
    clock,
    audit: createAuditTrail(store),
    findActor: () => Promise.resolve(application),
  });
  const now = clock.now();
  const context = createRequestContext({ principal: vault.principal, traceId: 'trace', now });
  const showing = {
    applicationId: 'app',
    permission: 'token:update',
    transform: 'reveal',
    ...shown,
  } as const;
  const decideNow = await decide([{ id: 'tok', shown: showing }], now, context);
  return (await decideNow()).refusal === undefined;
}

it('an answer of an update that read the data needs token:update with reveal now, and no right to read', async () => {
  const told = { isTold: true } as const;
  expect(await isShown(told, [rule({})])).toBe(true);
  expect(await isShown(told, [rule({ transform: 'mask' })])).toBe(false);
  expect(await isShown(told, [rule({ container: '/other/' })])).toBe(false);
  expect(await isShown({}, [rule({})])).toBe(false);
});

it('an answer of a search needs that the data may be searched now, however it is shown', async () => {
  const told = { permission: 'token:search', isTold: true } as const;
  expect(await isShown(told, [rule({ transform: 'redact' })])).toBe(true);
  expect(await isShown(told, [rule({ transform: 'mask', search_data: false })])).toBe(false);
  expect(await isShown(told, [rule({ search_data: false })])).toBe(true);
  expect(await isShown(told, [rule({ container: '/other/' })])).toBe(false);
  const [strict, wide] = [rule({ transform: 'mask', search_data: false }), rule({ priority: 2 })];
  expect(await isShown(told, [strict, wide])).toBe(false);
});

const fingerprint_expression = '{{ data }}';
const made = { isTold: true, permission: 'token:create', transform: 'redact' };
const told = { isTold: true, permission: 'token:update', transform: 'reveal' };
const by = (...rules: Partial<AccessRule>[]): Principal => ({
  ...vault.principal,
  rules: rules.map((changes) => rule(changes)),
});
const patch = (body: object, as: Principal, transaction?: string): Promise<Answer> =>
  vault.call('updateToken', { params: { id: 'tok' }, body }, { as, transaction });

/** The declaration of the answer that it depends on the token without showing it. */
const tellingOf = ({ tokens = [] }: { readonly tokens?: readonly AnswerToken[] }, id = 'tok') =>
  tokens.filter((token) => token.id === id && token.by === 'seen').map(({ shown }) => shown);

/** The transforms of the recorded readings of the token. */
const readings = async (): Promise<unknown[]> =>
  (await vault.events()).flatMap(({ type, data }) => {
    if (type !== 'TokensRead' || data['operation'] !== 'read') return [];
    const tokens = data['tokens'] as { readonly token_id: string; readonly transform: string }[];
    return tokens.filter(({ token_id: id }) => id === 'tok').map(({ transform }) => transform);
  });

/** The stored answer, shown again to a caller that has these rights by then. */
async function repeat(answer: Answer, principal: Principal) {
  const { log: store, keyRing, clock } = vault;
  const expressions = createExpressions(createInlineWorkers());
  const audit = createAuditTrail(store);
  const dependencies = { store, keyRing, clock, expressions, audit, findActor: noActor };
  const replay = createTokenReplay(dependencies);
  const context = createRequestContext({ principal, traceId: 'again', now: clock.now() });
  const named = await namedTokens(answer.tokens ?? [], (ids) => replay.facts(ids, context));
  const later = { present: async () => context, isOnRecord: false };
  const shown = await replay.show(named?.tokens ?? [], context, later);
  return shown.map((each) => each?.token);
}

describe('a patch that is answered by another token, because the patched one has its data', () => {
  const asked = { fingerprint_expression, deduplicate_token: true };
  beforeEach(() =>
    vault.create({ type: 'token', data: 'x', id: 'other', containers: ['/mine/'], fingerprint_expression }),
  );

  it('depends on the data of the patched token, whose reading is recorded', async () => {
    const answer = await patch(asked, by({}));
    expect(answer.body).toMatchObject({ id: 'other' });
    expect(tellingOf(answer)).toEqual([told]);
    expect(await readings()).toEqual(['reveal']);
  });

  it('is repeated only while the caller may update the patched token by a rule that reveals', async () => {
    const answer = await patch(asked, by({}));
    expect(await repeat(answer, by({}))).toMatchObject([{ id: 'other' }, undefined]);
    expect(await readings()).toEqual(['reveal', 'reveal']);
    await expect(repeat(answer, by({ container: '/mine/' }))).rejects.toMatchObject({ code: 'forbidden' });
    await expect(repeat(answer, by({ transform: 'mask' }))).rejects.toMatchObject({ code: 'forbidden' });
    expect(await readings()).toEqual(['reveal', 'reveal']);
  });

  it('does not depend on stored data when the caller sent all data, but needs the right to the patched token', async () => {
    await vault.update('tok', { data: 'y', fingerprint_expression, deduplicate_token: true });
    const masking = by({ transform: 'mask' });
    const answer = await patch({ data: 'x' }, masking);
    expect(answer.body).toMatchObject({ id: 'other' });
    expect(tellingOf(answer)).toEqual([{ permission: 'token:update', transform: 'redact' }]);
    expect(await readings()).toEqual([]);
    expect(await repeat(answer, masking)).toMatchObject([{ id: 'other' }, undefined]);
    await expect(repeat(answer, by({ container: '/mine/' }))).rejects.toMatchObject({ code: 'forbidden' });
  });
});

describe('a patch whose expressions read stored data', () => {
  const works = { fingerprint_expression: '{{ data | slice: 0 }}' };
  const fails = { fingerprint_expression: "{{ data | json: '$.no' }}" };

  it('depends on that data by its success, which is repeated only to a caller that may patch it now', async () => {
    const answer = await patch(works, by({}));
    expect(tellingOf(answer)).toEqual([told]);
    expect(await repeat(answer, by({}))).toMatchObject([{ id: 'tok' }, undefined]);
    await expect(repeat(answer, by({ transform: 'mask' }))).rejects.toMatchObject({ code: 'forbidden' });
  });

  it('has its reading recorded when it may still be rolled back', async () => {
    const transaction = await vault.begin();
    await patch({ mask: '{{ data }}' }, vault.principal, transaction);
    await patch(works, { ...vault.principal, rules: by({}).rules }, transaction);
    expect(await readings()).toEqual(['reveal', 'reveal']);
  });

  it('depends on that data also when the first answer was lost: the repeat is a reading, and is decided like any', async () => {
    const again = { as: by({}), idempotencyKey: 'k' };
    const send = () => vault.call('updateToken', { params: { id: 'tok' }, body: works }, again);
    vault.faults.decide = (stream) => (stream.startsWith('token-') ? 'after' : undefined);
    await expect(send()).rejects.toThrow('cut off after');
    vault.faults.decide = () => undefined;
    const answer = await send();
    expect(answer.isRepeat).toBe(true);
    expect(tellingOf(answer)).toEqual([told]);
    expect(await readings()).toContain('reveal');
    await expect(repeat(answer, by({ transform: 'mask' }))).rejects.toMatchObject({ code: 'forbidden' });
    // A caller that may patch the token without seeing its data gets the answer that such a patch gets.
    const masking = { ...again, as: by({ transform: 'mask' }) };
    const unseen = await vault.call('updateToken', { params: { id: 'tok' }, body: {} }, masking);
    expect(tellingOf(unseen)).toEqual([]);
  });

  it('depends on that data by its error, which is recorded as a reading', async () => {
    const error: unknown = await patch(fails, by({})).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(DataDependentError);
    expect(tellingOf((error as DataDependentError).madeOf)).toEqual([told]);
    expect(await readings()).toEqual(['reveal']);
  });

  it.each<[string, object]>([
    ['names no expression', { metadata: { a: 'b' } }],
    ['brings all data', { data: 'y', mask: '{{ data }}' }],
    ['has no expression', { mask: null, search_indexes: [] }],
  ])('is none when the patch %s', async (_which, body) => {
    expect(tellingOf(await patch(body, by({})))).toEqual([]);
  });

  it('counts as no reading when the data that the caller sent whole does not fit its expression', async () => {
    const masking = by({ transform: 'mask' });
    const error: unknown = await patch({ data: 'y', ...fails }, masking).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'validation_failed' });
    expect(error).not.toBeInstanceOf(DataDependentError);
    expect(await readings()).toEqual([]);
  });
});

describe('a create that is answered by a token that the caller may not read', () => {
  const body = {
    type: 'token',
    data: 'z',
    containers: ['/asked/'],
    fingerprint_expression,
    deduplicate_token: true,
  };
  const asking = () => by({ container: '/asked/', permissions: ['token:create'] });
  beforeEach(() => vault.create({ ...body, id: 'hit', containers: ['/hidden/'] }));

  it.each<[string, () => Promise<Answer>]>([
    ['createToken', () => vault.call('createToken', { body }, { as: asking() })],
    ['createTokens', () => vault.call('createTokens', { body: { tokens: [body] } }, { as: asking() })],
    ['tokenize', () => vault.call('tokenize', { body: { a: body } }, { as: asking() })],
  ])('is repeated only while the caller may make the token that it asked for (%s)', async (_call, create) => {
    const answer = await create();
    expect(tellingOf(answer, 'hit')).toMatchObject([{ ...made, asked: { containers: ['/asked/'] } }]);
    expect(await repeat(answer, asking())).toMatchObject([{ id: 'hit' }, undefined]);
    const others = by({ container: '/hidden/', permissions: ['token:create', 'token:read'] });
    await expect(repeat(answer, others)).rejects.toMatchObject({ code: 'forbidden' });
  });
});

describe('a patch of a caller that may not see the data, and that makes it too large', () => {
  let masking: Principal;
  const tooLarge = { data: { pad: 'p'.repeat(512 * 1024 - 5) } };
  const errorOf = (body: object): Promise<unknown> => patch(body, masking).catch((thrown: unknown) => thrown);
  beforeEach(async () => {
    masking = by({ transform: 'mask' });
    await vault.update('tok', { data: { secret: 'hidden' } });
  });

  it('is told of the size, which is on record', async () => {
    const error = await errorOf(tooLarge);
    expect(error).toMatchObject({
      code: 'validation_failed',
      errors: { data: expect.anything() as unknown },
    });
    expect(tellingOf((error as DataDependentError).madeOf)).toEqual([
      { permission: 'token:update', transform: 'redact' },
    ]);
    expect(await readings()).toEqual(['redact']);
  });

  it.each([
    ['an expiry in the past', { expires_at: '2000-01-01T00:00:00Z' }, 'expires_at'],
    [
      'too much metadata',
      { metadata: Object.fromEntries(Array.from({ length: 51 }, (_, index) => [`k${index}`, 'v'])) },
      'metadata',
    ],
  ])('is not told of the size by a patch that is refused for %s', async (_what, refused, field) => {
    expect(await errorOf({ ...tooLarge, ...refused })).toMatchObject({
      errors: { [field]: expect.anything() as unknown },
    });
    expect(await readings()).toEqual([]);
  });

  it('may try as often as it may miss', async () => {
    const { tenant } = vault.principal;
    const applicationId = randomUUID();
    const limited = {
      ...masking,
      applicationId,
      tenant: { ...tenant, settings: { data_misses_per_minute: '2' } },
    };
    const tries = [];
    for (let count = 0; count < 3; count += 1)
      tries.push(await patch(tooLarge, limited).catch((error: unknown) => (error as { code: string }).code));
    expect(tries).toEqual(['validation_failed', 'validation_failed', 'rate_limited']);
  });
});
