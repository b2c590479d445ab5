import type { AccessRule, Permission, Transform } from '@token-vault/contracts';
import type { Principal } from '@token-vault/access';
import { describe, expect, it } from 'vitest';
import { card, refusal, useVault, type TestVault } from './vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));

const otherCard = '5555555555554444';
const wholeCard = { number: otherCard, expiration_month: 1, expiration_year: 2040, cvc: null };
const rule = (priority: number, container: string, transform: Transform, ...permissions: Permission[]) =>
  ({
    description: undefined,
    conditions: undefined,
    priority,
    container,
    transform,
    permissions,
  }) as AccessRule;
const caller = (rules: AccessRule[], permissions: Permission[] = []): Principal => ({
  ...vault.principal,
  rules,
  permissions,
});
/** A caller with a public key that may update tokens and not read them. */
const updater = () => ({ as: { ...caller([], ['token:update']), applicationType: 'public' } as Principal });
const createCard = () =>
  vault.create({
    type: 'card',
    id: 'tok',
    data: { number: card, expiration_month: 12, expiration_year: 2040, cvc: '123' },
    metadata: { k: 'v' },
    fingerprint_expression: '{{ data.number }}',
  });
const changes: [string, object][] = [
  ['mask', { mask: '{{ data }}' }],
  ['mask', { mask: null }],
  ['search_indexes', { search_indexes: ['{{ data.number }}'] }],
  ['fingerprint_expression', { fingerprint_expression: '{{ data.number | slice: 0, 1 }}' }],
  ['fingerprint_expression', { fingerprint_expression: null }],
  ['containers', { containers: ['/open/'] }],
  ['deduplicate_token', { deduplicate_token: true }],
  ['deduplicate_token', { deduplicate_token: null }],
];

describe('a caller that may not see the data of a token', () => {
  it.each(changes)('may not change its %s: %o', async (field, patch) => {
    await createCard();
    const before = await vault.events();
    await expect(vault.update('tok', patch, updater())).rejects.toMatchObject(refusal('forbidden', field));
    expect(await vault.events()).toEqual(before);
  });

  it.each(changes)('may not change its %s beside a part of the data: %o', async (field, patch) => {
    await createCard();
    const body = { ...patch, data: { number: otherCard, expiration_month: 1, expiration_year: 2041 } };
    await expect(vault.update('tok', body, updater())).rejects.toMatchObject(refusal('forbidden', field));
  });

  it.each(changes)('may change its %s together with the whole data: %o', async (_field, patch) => {
    await createCard();
    const { id } = await vault.update('tok', { ...patch, data: wholeCard }, updater());
    expect(id).toBe('tok');
    expect((await vault.stored('tok'))?.data).toEqual({
      number: otherCard,
      expiration_month: 1,
      expiration_year: 2040,
    });
  });

  it('brings no data whole by merging into an object of unknown properties', async () => {
    await vault.create({ type: 'token', id: 'tok', data: { a: 1 } });
    const patch = { data: { a: 2 }, mask: '{{ data }}' };
    await expect(vault.update('tok', patch, updater())).rejects.toMatchObject(refusal('forbidden', 'mask'));
    await expect(vault.update('tok', { ...patch, data: [2] }, updater())).resolves.toMatchObject({
      id: 'tok',
    });
  });

  it('may not change it in a transaction, nor tokens that the transaction made', async () => {
    await createCard();
    const transaction = await vault.begin();
    const { as } = updater();
    await vault.create({ type: 'token', id: 'new', data: 'secret' }, { transaction });
    for (const id of ['tok', 'new'])
      await expect(vault.update(id, { mask: '{{ data }}' }, { as, transaction })).rejects.toMatchObject(
        refusal('forbidden', 'mask'),
      );
  });

  it('may not change its mask when it was allowed to until another writer held the patch up', async () => {
    await createCard();
    let attempts = 0;
    const principalNow = () => Promise.resolve((attempts += 1) === 1 ? undefined : updater().as);
    vault.faults.interpose = async (stream) => {
      vault.faults.interpose = async () => undefined;
      if (stream.startsWith('token-')) await vault.update('tok', { metadata: { by: 'another' } });
    };
    await expect(vault.update('tok', { mask: '{{ data }}' }, { principalNow })).rejects.toMatchObject(
      refusal('forbidden', 'mask'),
    );
    expect(attempts).toBe(2);
  });

  it('may send back the stored values, and change fields that depend on no data', async () => {
    const token = await createCard();
    const same = {
      mask: token.mask,
      containers: ['/PCI/high/'],
      search_indexes: [],
      fingerprint_expression: '{{ data.number }}',
      deduplicate_token: false,
    };
    const patch = { ...same, metadata: { k: 'w' }, expires_at: '1/1/2031', data: { expiration_month: 3 } };
    expect(await vault.update('tok', patch, updater())).toMatchObject({ metadata: { k: 'w' } });
    expect((await vault.stored('tok'))?.data).toMatchObject({ number: card, expiration_month: 3 });
  });

  it.each([
    ['data', { data: { salt: null } }, '{{ data | stringify }}'],
    ['data', { data: { salt: null } }, '{{ data.pin }}{{ data.salt }}'],
    ['data', { data: { name: 'salt' } }, '{{ data[data.name] }}'],
    ['metadata', { metadata: { salt: 'mine' } }, '{{ data.pin }}{{ metadata.salt }}'],
    ['metadata', { metadata: null }, '{{ data.pin }}{{ metadata | stringify }}'],
  ])(
    'may not change %s that an expression mixes with the rest: %o in %s',
    async (field, patch, expression) => {
      const data = { pin: '1234', salt: 'dhf8w7f', name: 'pin' };
      await vault.create({ type: 'token', id: 'tok', data, fingerprint_expression: expression });
      await expect(vault.update('tok', patch, updater())).rejects.toMatchObject(refusal('forbidden', field));
    },
  );

  it.each(['{{ data.pin }}{{ data.salt.0 }}', '{{ data.pin }}{{ data.salt.length }}'])(
    'may not replace an array by an object where %s reads the array',
    async (expression) => {
      const data = { pin: '1234', salt: ['dhf8w7f'] };
      await vault.create({ type: 'token', id: 'tok', data, fingerprint_expression: expression });
      const patch = { data: { salt: { x: '1' } } };
      await expect(vault.update('tok', patch, updater())).rejects.toMatchObject(refusal('forbidden', 'data'));
    },
  );

  it('may not make a mask depend on a part of the data', async () => {
    const mask = { shown: '{{ data.number | reveal_last: data.digits }}', name: '{{ data.name }}' };
    await vault.create({ type: 'token', id: 'tok', data: { number: card, digits: 4, name: 'x' }, mask });
    await expect(vault.update('tok', { data: { digits: 16 } }, updater())).rejects.toMatchObject(
      refusal('forbidden', 'data'),
    );
    await expect(vault.update('tok', { data: { name: 'y' } }, updater())).resolves.toMatchObject({
      id: 'tok',
    });
  });

  it('may not do so by sending the mask of another caller without sight back, either', async () => {
    const mask = { shown: '{{ data.number | reveal: data.expiration_month, 0 }}', name: 'x' };
    await createCard();
    const data = { number: card, expiration_month: 1, expiration_year: 2040, cvc: null };
    const other = { ...caller([], ['token:update']), actor: { kind: 'application', id: 'other' } } as const;
    await vault.update('tok', { data, mask }, { as: other });
    for (const sent of [mask, { shown: mask.shown }])
      await expect(
        vault.update('tok', { data: { expiration_month: 12 }, mask: sent }, updater()),
      ).rejects.toMatchObject(refusal('forbidden', 'data'));
  });

  it('does not learn from a refusal whether the mask of another caller fits the data', async () => {
    await createCard();
    await vault.update('tok', { mask: { cvc: "{% unless data.cvc %}{{ 'x' | to_number }}{% endunless %}" } });
    vault.clock.advance(60 * 60 * 1000);
    const patch = { data: { expiration_month: 3 } };
    await expect(vault.update('tok', patch)).rejects.toMatchObject(refusal('validation_failed', 'mask.cvc'));
    await expect(vault.update('tok', patch, updater())).resolves.toMatchObject({ id: 'tok' });
  });

  it.each([{ fingerprint_tokens: 'true' }, { deduplicate_tokens: 'true' }])(
    'gives it no fingerprint by a setting: %o',
    async (settings) => {
      await vault.create({ type: 'token', id: 'tok', data: 'secret' });
      await vault.create({
        type: 'token',
        id: 'twin',
        data: 'secret',
        fingerprint_expression: '{{ data | stringify }}',
      });
      const { as } = updater();
      const tenant = { ...as.tenant, settings };
      const answer = await vault.update('tok', { metadata: { a: 'b' } }, { as: { ...as, tenant } });
      expect(answer.id).toBe('tok');
      expect((await vault.stored('tok'))?.content.fingerprint).toBeUndefined();
    },
  );
});

describe('the answer of an update', () => {
  it('has no data and no fingerprint for a caller that may not read the token', async () => {
    await createCard();
    const answer = await vault.update('tok', { metadata: { k: 'w' } }, updater());
    expect(answer).toMatchObject({ id: 'tok', metadata: { k: 'w' } });
    expect(answer).not.toHaveProperty('data');
    expect(answer).not.toHaveProperty('fingerprint');
  });

  it.each<[Transform, Transform, object | undefined]>([
    ['reveal', 'mask', { number: 'XXXXXXXXXXXX4242', expiration_month: 12, expiration_year: 2040 }],
    ['mask', 'reveal', { number: 'XXXXXXXXXXXX4242', expiration_month: 12, expiration_year: 2040 }],
    ['reveal', 'redact', undefined],
    ['redact', 'reveal', undefined],
    ['reveal', 'reveal', { number: card, expiration_month: 12, expiration_year: 2040, cvc: '123' }],
  ])('shows by token:update %s and token:read %s the lesser of both', async (update, read, data) => {
    const { fingerprint } = await createCard();
    const rules = [rule(1, '/', update, 'token:update'), rule(2, '/', read, 'token:read')];
    const answer = await vault.update('tok', { metadata: { k: 'w' } }, { as: caller(rules) });
    expect(answer.data).toEqual(data);
    expect(answer.fingerprint).toBe(fingerprint);
  });
});

describe('a move of a token', () => {
  const mover = (...more: AccessRule[]) => ({
    as: caller([...more, rule(50, '/', 'reveal', 'token:update')]),
  });

  it('is done for a caller who may reveal it in both places and sees no more in the new one', async () => {
    await createCard();
    const options = mover(rule(1, '/', 'mask', 'token:read'));
    await expect(vault.update('tok', { containers: ['/b/'] }, options)).resolves.toMatchObject({
      containers: ['/b/'],
    });
  });

  it('is refused where the new container does not reveal it to the caller', async () => {
    await createCard();
    const options = mover(rule(1, '/b/', 'mask', 'token:update'));
    await expect(vault.update('tok', { containers: ['/b/'] }, options)).rejects.toMatchObject(
      refusal('forbidden', 'containers'),
    );
  });

  it.each(['token:read', 'token:search', 'token:use'] as const)(
    'is refused where the caller would see more by %s',
    async (permission) => {
      await createCard();
      const options = mover(rule(1, '/b/', 'reveal', permission), rule(2, '/', 'mask', permission));
      await expect(vault.update('tok', { containers: ['/b/c/'] }, options)).rejects.toMatchObject(
        refusal('forbidden', 'containers'),
      );
    },
  );

  it('is bounded for a session by what its authorizer may do', async () => {
    await createCard();
    const session = {
      ...mover().as,
      authorizer: { permissions: ['token:update'], rules: [] },
    } as Principal;
    await expect(vault.update('tok', { containers: ['/b/'] }, { as: session })).rejects.toMatchObject(
      refusal('forbidden', 'containers'),
    );
  });
});

describe('deduplication of a token whose data the caller may not see', () => {
  const make = (id: string, more: object) =>
    vault.create({
      type: 'card',
      id,
      data: { number: card },
      fingerprint_expression: '{{ data.number }}',
      ...more,
    });

  it('answers with a token that is equal to the data it sends', async () => {
    await make('tok', { deduplicate_token: true });
    await make('known', { deduplicate_token: false, data: { number: otherCard } });
    expect((await vault.update('tok', { data: { number: otherCard } }, updater())).id).toBe('known');
  });

  it.each([{ cvc: null }, {}])(
    'does not answer with an equal token that is not of the data it sends: %o',
    async (data) => {
      await make('tok', { deduplicate_token: true });
      await make('guess', { deduplicate_token: false });
      expect((await vault.update('tok', { data }, updater())).id).toBe('tok');
    },
  );
});
