import type { Principal } from '@token-vault/access';
import { beforeEach, describe, expect, it } from 'vitest';
import { card, useVault, type TestVault } from './vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));

const theirs = { number: '5555555555554444', expiration_month: 1, expiration_year: 2040, cvc: null };
const shows = {
  mask: '{{ data }}',
  search_indexes: ['{{ data.number }}'],
  fingerprint_expression: '{{ data.number | slice: 0, 8 }}',
};
/** May update, and sees no data. */
const blind = (id = 'blind'): Principal => ({
  ...vault.principal,
  actor: { kind: 'application', id },
  applicationId: id,
  rules: [],
  permissions: ['token:update'],
});
const of = async () => {
  const { content } = (await vault.stored('tok')) ?? {};
  const { mask, search_indexes: indexes = [], fingerprint_expression: expression } = content ?? {};
  return { mask, indexes, expression, by: content?.set_without_sight };
};
const asSet = {
  mask: shows.mask,
  indexes: shows.search_indexes,
  expression: shows.fingerprint_expression,
};

describe('a field that a caller without sight of the data set together with the whole data', () => {
  beforeEach(async () => {
    await vault.create({ type: 'card', id: 'tok', data: { number: card } });
    await vault.update('tok', { data: theirs, ...shows }, { as: blind() });
  });

  it('applies to that data', async () => {
    expect(await of()).toMatchObject(asSet);
    await vault.update('tok', { metadata: { k: 'v' } });
    await vault.update('tok', { data: { ...theirs, expiration_month: 2 } }, { as: blind() });
    expect(await of()).toMatchObject(asSet);
  });

  it.each([['one that sees it'], ['one that does not see it either']])(
    'ends when another caller changes the data, %s',
    async (who) => {
      const as = who === 'one that sees it' ? vault.principal : blind('other');
      await vault.update('tok', { data: { expiration_month: 2 } }, { as });
      const { mask, indexes, expression, by } = await of();
      expect([mask, indexes, expression]).toEqual([undefined, [], undefined]);
      // No default takes the place of an expression that may have had a salt.
      expect(Object.keys(by ?? {})).toEqual(['fingerprint_expression']);
    },
  );

  it('ends when another caller without sight brings the whole data', async () => {
    await vault.update('tok', { data: theirs }, { as: blind('other') });
    expect((await of()).mask).toBeUndefined();
  });

  it('stays when that caller sends it again with the data, and other fields end', async () => {
    await vault.update('tok', { data: { number: card }, mask: shows.mask });
    expect(await of()).toMatchObject({ mask: shows.mask, indexes: [], expression: undefined });
  });

  it('ends in the transaction of another caller', async () => {
    const transaction = await vault.begin();
    await vault.update('tok', { data: { number: card } }, { transaction });
    await vault.end('commit', transaction);
    expect((await of()).mask).toBeUndefined();
  });

  it('gives its place neither to what the creator said, nor to what a caller with sight said before', async () => {
    const mask = { number: '{{ data.number | slice: 0, 6 }}' };
    await vault.create({ type: 'card', id: 'own', data: { number: card }, mask: '{{ data }}' });
    await vault.update('own', { data: theirs, mask });
    await vault.update('own', { data: theirs, mask: 'x' }, { as: blind() });
    await vault.update('own', { data: { number: card } });
    expect((await vault.stored('own'))?.content).not.toHaveProperty('mask');
  });
});

describe('a field of a caller that sees the data or created the token', () => {
  it('stays when another caller changes the data', async () => {
    await vault.create({ type: 'card', id: 'tok', data: { number: card } });
    await vault.update('tok', { data: theirs, ...shows });
    await vault.update('tok', { data: { ...theirs, expiration_month: 2 } }, { as: blind() });
    expect(await of()).toMatchObject(asSet);
    const { by } = await of();
    await vault.update('tok', { data: theirs, mask: shows.mask }, { as: blind() });
    expect((await of()).by).toEqual(by);
  });

  it('stays where its creator set it, also when the token is moved', async () => {
    await vault.create({ type: 'card', id: 'tok', data: { number: card }, ...shows, containers: ['/in/'] });
    await vault.update('tok', { data: theirs, containers: ['/pci/'] }, { as: blind() });
    expect(await of()).toEqual({ ...asSet, by: undefined });
  });
});

describe('a caller that is shown less than its application', () => {
  const session = { kind: 'session', id: 'b8a4f9b8-8f2c-4a43-9d0c-0d5d54a1c9aa' } as const;
  const authorized = { authorizedBy: '5f0c7d3a-7f66-4a55-8c8e-3f2a4f1f6c01' };
  it.each<[string, (owner: Principal) => Principal]>([
    [
      'a session with a lesser right',
      (owner) => ({ ...blind(owner.applicationId), ...authorized, actor: session }),
    ],
    ['the console', (owner) => ({ ...owner, ...authorized, actor: session, shownAtMost: 'mask' })],
    ['code that the console runs', (owner) => ({ ...owner, shownAtMost: 'mask' })],
  ])('has its mask ended by its application: %s', async (_name, callerOf) => {
    const owner = vault.principal;
    await vault.create({ type: 'card', id: 'tok', data: { number: card } });
    await vault.update('tok', { data: theirs, ...shows }, { as: callerOf(owner) });
    expect(await of()).toMatchObject(asSet);
    await vault.update('tok', { data: { number: card } });
    const { mask, indexes, expression } = await of();
    expect([mask, indexes, expression]).toEqual([undefined, [], undefined]);
  });

  it.each<[string, Partial<Principal>]>([
    ['the console', { ...authorized, actor: session, shownAtMost: 'mask' }],
    ['code that the console runs', { shownAtMost: 'mask' }],
  ])('has the mask of a token that it made ended by any other: %s', async (_name, as) => {
    await vault.create(
      { type: 'token', id: 'tok', data: 'junk', mask: '{{ data }}' },
      { as: { ...vault.principal, ...as } },
    );
    expect((await of()).mask).toBe('{{ data }}');
    await vault.update('tok', { data: 'real' });
    expect((await of()).mask).toBeUndefined();
  });

  it('does not keep its mask by an object that its application merges into it', async () => {
    const as = { ...vault.principal, ...authorized, actor: session, shownAtMost: 'mask' as const };
    await vault.create({ type: 'card', id: 'tok', data: { number: card } });
    await vault.update('tok', { data: theirs, mask: { x: '{{ data.number }}' } }, { as });
    const mask = { number: '{{ data.number | reveal_last: 4 }}' };
    await vault.update('tok', { data: { number: card }, mask });
    expect((await of()).mask).toEqual(mask);
    await vault.update('tok', { data: { number: theirs.number } });
    expect((await of()).mask).toEqual(mask);
  });

  it('stays the setter of a mask that its application sends back unchanged', async () => {
    const as = { ...vault.principal, ...authorized, actor: session, shownAtMost: 'mask' as const };
    await vault.create({ type: 'token', id: 'tok', data: 'first' });
    await vault.update('tok', { data: 'junk', mask: '{{ data }}' }, { as });
    await vault.update('tok', { metadata: { k: 'v' }, mask: '{{ data }}' });
    await vault.update('tok', { data: 'real' });
    expect((await of()).mask).toBeUndefined();
  });
});

describe('a caller that sees the data of tokens in a container of its own only', () => {
  const own = '/own/';
  const caller = (): Principal => ({
    ...blind(),
    rules: [{ priority: 1, container: own, transform: 'reveal', permissions: ['token:update'] }],
  });
  const moves = (patch: object) => vault.update('tok', patch, { as: caller() });

  it.each([
    ['where it takes the token out', [], { mask: shows.mask }],
    ['before', [{ mask: null }, { mask: shows.mask }], {}],
    ['before, when it is part of an object', [{ mask: { number: '{{ data.number }}' } }], {}],
  ])('has its mask ended by another: it set the mask %s', async (_when, inside, last) => {
    await vault.create({ type: 'card', id: 'tok', data: { number: card }, containers: ['/pci/high/'] });
    await moves({ data: theirs, containers: [own] });
    for (const patch of inside) await moves(patch);
    await moves({ data: theirs, containers: ['/pci/high/'], ...last });
    await vault.update('tok', { data: { number: card } });
    expect((await of()).mask).toBeUndefined();
  });
});

describe('a field that a caller set where it sees the data', () => {
  const seesIn = (container: string, id: string): Principal => ({
    ...blind(id),
    rules: [{ priority: 1, container, transform: 'reveal', permissions: ['token:update'] }],
  });
  const setter = () => seesIn('/in/', 'setter');
  const home = { containers: ['/pci/high/'] };
  const ended = { mask: undefined, indexes: [], expression: undefined };

  it.each([
    ['with its data, and sees the data there', [{ data: { ...theirs, number: card }, ...home }], '/pci/'],
    ['with its data, and sees the data on both sides', [{ data: { ...theirs, number: card }, ...home }], '/'],
    ['and brings the data then', [home, { data: { ...theirs, number: card } }], '/'],
  ])('ends when another caller moves the token %s', async (_how, patches, container) => {
    await vault.create({ type: 'card', id: 'tok', data: { number: card }, containers: ['/in/'] });
    await vault.update('tok', { ...shows, deduplicate_token: true }, { as: setter() });
    for (const patch of patches) await vault.update('tok', patch, { as: seesIn(container, 'home') });
    expect(await of()).toMatchObject(ended);
    expect((await vault.stored('tok'))?.content).toMatchObject({ deduplicate_token: false });
  });

  it('ends when the setter has taken the token there from where others keep it', async () => {
    await vault.create({ type: 'card', id: 'tok', data: { number: card }, ...home });
    await vault.update('tok', { data: theirs, containers: ['/in/'] }, { as: setter() });
    await vault.update('tok', { mask: shows.mask }, { as: setter() });
    await vault.update(
      'tok',
      { data: { ...theirs, number: card }, ...home },
      { as: seesIn('/pci/', 'home') },
    );
    expect((await of()).mask).toBeUndefined();
  });

  it('ends although another caller without sight carried the token out', async () => {
    await vault.create({ type: 'card', id: 'tok', data: { number: card }, ...home });
    await vault.update('tok', { data: theirs, containers: ['/in/'] }, { as: setter() });
    await vault.update('tok', { mask: shows.mask }, { as: setter() });
    await vault.update('tok', { data: theirs, ...home }, { as: blind('carrier') });
    await vault.update('tok', { data: { number: card } });
    expect((await of()).mask).toBeUndefined();
  });

  it('stays where it was set, and for data that the setter brings', async () => {
    await vault.create({ type: 'card', id: 'tok', data: { number: card }, containers: ['/in/'] });
    await vault.update('tok', shows, { as: setter() });
    await vault.update('tok', { data: theirs }, { as: seesIn('/', 'home') });
    expect(await of()).toMatchObject(asSet);
    await vault.update('tok', { data: theirs, ...home }, { as: setter() });
    expect(await of()).toMatchObject(asSet);
  });

  it('stays when its setter moves the token and sees the data there, too', async () => {
    await vault.create({ type: 'card', id: 'tok', data: { number: card }, containers: ['/in/'] });
    const both = seesIn('/', 'home');
    await vault.update('tok', shows, { as: both });
    await vault.update('tok', home, { as: both });
    await vault.update('tok', { data: theirs }, { as: blind() });
    expect(await of()).toMatchObject(asSet);
  });

  it('ends in its place when its setter sees the data only with a reason', async () => {
    const rule = { ...setter().rules[0], reason: 'required' } as Principal['rules'][number];
    const as = { ...setter(), rules: [rule], reason: 'ticket 7' };
    await vault.create({ type: 'card', id: 'tok', data: { number: card }, containers: ['/in/'] });
    await vault.update('tok', { mask: shows.mask }, { as });
    await vault.update('tok', { data: { number: theirs.number } });
    expect((await of()).mask).toBeUndefined();
  });

  it('does not go over to a caller that takes the expression of its flag away', async () => {
    await vault.create({ type: 'card', id: 'tok', data: { number: card }, containers: ['/in/'] });
    await vault.update('tok', { deduplicate_token: true }, { as: setter() });
    const both = seesIn('/', 'home');
    await vault.update('tok', { fingerprint_expression: null }, { as: both });
    await vault.update('tok', { data: theirs, ...home }, { as: both });
    const { content } = (await vault.stored('tok')) ?? {};
    for (const field of ['fingerprint', 'fingerprint_expression']) expect(content).not.toHaveProperty(field);
    expect(content).toMatchObject({ deduplicate_token: false });
  });

  it('ends with the data of either, where two callers set parts of it', async () => {
    await vault.create({ type: 'card', id: 'tok', data: { number: card }, containers: ['/in/'] });
    await vault.update('tok', { mask: { x: '{{ data.number }}' } }, { as: setter() });
    const both = seesIn('/', 'home');
    await vault.update('tok', { mask: { y: 'hidden' } }, { as: both });
    await vault.update('tok', { data: { number: card }, ...home }, { as: both });
    expect((await of()).mask).toBeUndefined();
  });
});

it('a field that a public key set ends with other data under the same key: each browser has it', async () => {
  const browser: Principal = { ...blind(), applicationType: 'public' };
  await vault.create({ type: 'card', id: 'tok', data: { number: card } });
  await vault.update('tok', { data: theirs, ...shows, deduplicate_token: true }, { as: browser });
  expect(await of()).toMatchObject(asSet);
  await vault.update('tok', { data: { ...theirs, number: card } }, { as: browser });
  expect(await of()).toMatchObject({ mask: undefined, indexes: [], expression: undefined });
});

it('metadata that the fingerprint reads is changed by no caller without sight, also together with the whole data', async () => {
  const metadata = { salt: 'dhf8w7f', other: 'x' };
  const expression = '{{ data.number }}{{ metadata.salt }}';
  const body = { data: { number: card }, fingerprint_expression: expression, metadata };
  await vault.create({ type: 'card', id: 'tok', ...body });
  const refused = { code: 'forbidden', errors: { metadata: [expect.any(String)] } };
  for (const patch of [{ metadata: { salt: '' } }, { metadata: null }])
    await expect(vault.update('tok', { data: theirs, ...patch }, { as: blind() })).rejects.toMatchObject(
      refused,
    );
  await vault.update('tok', { data: theirs, metadata: { other: 'y' } }, { as: blind() });
  expect((await vault.stored('tok'))?.content.metadata).toEqual({ ...metadata, other: 'y' });
});

describe('the flag that looks for tokens of equal data', () => {
  const flag = { deduplicate_token: true };
  const flagged = async () => (await vault.stored('tok'))?.content;

  beforeEach(() => vault.create({ type: 'card', id: 'tok', data: { number: card } }));

  it('of a caller without sight ends with its fingerprint when another caller changes the data', async () => {
    await vault.update('tok', { data: theirs, ...flag }, { as: blind() });
    expect(await flagged()).toMatchObject({ ...flag, fingerprint_expression: '{{ data.number }}' });
    await vault.update('tok', { data: { number: card } });
    for (const field of ['fingerprint_expression', 'fingerprint'])
      expect(await flagged()).not.toHaveProperty(field);
    expect(await flagged()).toMatchObject({ deduplicate_token: false });
  });

  it('ends also when the other caller gives an expression', async () => {
    await vault.update('tok', { data: theirs, ...flag }, { as: blind() });
    const { fingerprint_expression: expression } = shows;
    await vault.update('tok', { data: { number: card }, fingerprint_expression: expression });
    expect(await flagged()).toMatchObject({ fingerprint_expression: expression });
    expect(await flagged()).toMatchObject({ deduplicate_token: false });
  });

  it.each([null, shows.fingerprint_expression])(
    'ends when another caller says the expression alone: %s',
    async (said) => {
      await vault.update('tok', { data: theirs, ...flag }, { as: blind() });
      await vault.update('tok', { fingerprint_expression: said });
      expect(await flagged()).toMatchObject({ deduplicate_token: false });
      expect((await flagged())?.fingerprint_expression).toBe(said ?? undefined);
    },
  );

  it('of a second caller without sight, who repeats it, ends as well', async () => {
    await vault.update('tok', { data: theirs, ...flag }, { as: blind() });
    await vault.update('tok', { data: theirs, ...flag }, { as: blind('other') });
    expect(await flagged()).toMatchObject(flag);
    await vault.update('tok', { data: { number: card } });
    expect(await flagged()).toMatchObject({ deduplicate_token: false });
    expect(await flagged()).not.toHaveProperty('fingerprint');
  });

  it('that a caller without sight left to the setting of the tenant is off afterwards', async () => {
    await vault.update('tok', { deduplicate_token: false });
    const left = { deduplicate_token: null };
    const refusal = { errors: { deduplicate_token: [expect.any(String)] } };
    await expect(vault.update('tok', left, { as: blind() })).rejects.toMatchObject(refusal);
    await vault.update('tok', { data: theirs, ...left }, { as: blind() });
    expect(await flagged()).not.toHaveProperty('deduplicate_token');
    await vault.update('tok', { data: { number: card } });
    expect(await flagged()).toMatchObject({ deduplicate_token: false });
  });

  it('stays when a caller set it that sees the data', async () => {
    await vault.update('tok', flag);
    await vault.update('tok', { data: theirs, ...flag }, { as: blind() });
    await vault.update('tok', { data: { number: card } });
    expect(await flagged()).toMatchObject(flag);
  });

  it('stays when the caller that set it changes the data', async () => {
    await vault.update('tok', { data: theirs, deduplicate_token: false }, { as: blind() });
    await vault.update('tok', { data: theirs, ...flag }, { as: blind() });
    await vault.update('tok', { data: theirs }, { as: blind() });
    expect(await flagged()).toMatchObject(flag);
  });
});

it('a field that a run of code set ends with the data of another run: each caller of the code chooses what it writes', async () => {
  await vault.create({ type: 'card', id: 'tok', data: { number: card } });
  await vault.update('tok', { data: theirs, ...shows }, { as: blind(), run: 'first' });
  await vault.update('tok', { data: theirs }, { as: blind(), run: 'first' });
  expect(await of()).toMatchObject(asSet);
  await vault.update('tok', { data: { ...theirs, number: card } }, { as: blind(), run: 'second' });
  expect(await of()).toMatchObject({ mask: undefined, indexes: [], expression: undefined });
});
