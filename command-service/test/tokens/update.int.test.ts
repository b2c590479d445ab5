import { searchIndexStatementOf, type TokenContent, type Transform } from '@token-vault/contracts';
import { describe, expect, it } from 'vitest';
import { anyone, card, refusal, useVault, type TestVault } from './vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));

const create = (body: object = {}) =>
  vault.create({ type: 'token', data: { a: 1, b: { c: 2 } }, id: 'tok', ...body });

describe('an update', () => {
  it('merges data, mask and metadata', async () => {
    await create({ mask: { a: 'X', b: 'Y' }, metadata: { one: '1', two: '2' } });
    const patch = {
      data: { a: null, b: { d: [3] } },
      mask: { b: null, c: 'Z' },
      metadata: { one: null, three: '3' },
    };
    const token = await vault.update('tok', patch);
    expect(token).toMatchObject({
      data: { b: { c: 2, d: [3] } },
      mask: { a: 'X', c: 'Z' },
      metadata: { two: '2', three: '3' },
      modified_by: 'app',
      modified_at: '2030-01-01T00:00:00.000Z',
    });
    expect((await vault.stored('tok'))?.data).toEqual({ b: { c: 2, d: [3] } });
  });

  it('replaces containers, search indexes, fingerprint expression, deduplication and expiry', async () => {
    await create({
      search_indexes: ['{{ data.a }}'],
      fingerprint_expression: '{{ data.a }}',
      containers: ['/a/'],
    });
    const token = await vault.update('tok', {
      containers: ['/b/'],
      search_indexes: ['{{ data.b.c }}'],
      fingerprint_expression: '{{ data.b.c }}',
      deduplicate_token: true,
      expires_at: '1/2/2030',
    });
    expect(token).toMatchObject({
      containers: ['/b/'],
      search_indexes: ['{{ data.b.c }}'],
      fingerprint_expression: '{{ data.b.c }}',
      expires_at: '2030-01-02T00:00:00+00:00',
    });
    expect((await vault.stored('tok'))?.content.deduplicate_token).toBe(true);
  });

  it('removes optional fields by null', async () => {
    const given = {
      mask: 'X',
      metadata: { a: 'b' },
      search_indexes: ['{{ data.a }}'],
      expires_at: '1/2/2030',
    };
    await create({
      ...given,
      fingerprint_expression: '{{ data.a }}',
      containers: ['/a/'],
      deduplicate_token: true,
    });
    const all = [
      'mask',
      'metadata',
      'search_indexes',
      'expires_at',
      'fingerprint_expression',
      'containers',
      'deduplicate_token',
    ];
    await vault.update('tok', Object.fromEntries(all.map((field) => [field, null])));
    expect((await vault.stored('tok'))?.content).toEqual({
      data: expect.any(String) as unknown,
      containers: ['/general/high/'],
      search_indexes: [],
      index_hashes: [],
      signature: expect.any(String) as unknown,
    });
  });

  it('follows changed data with its fingerprint and search indexes', async () => {
    await create({ search_indexes: ['{{ data.a }}'], fingerprint_expression: '{{ data.a }}' });
    const before = (await vault.stored('tok'))?.content;
    await vault.update('tok', { data: { a: 2 } });
    const after = (await vault.stored('tok'))?.content;
    expect(after?.fingerprint).not.toBe(before?.fingerprint);
    expect(after?.index_hashes).not.toEqual(before?.index_hashes);
  });

  it('signs the hashes of the search indexes anew, for the data and the expressions that they are made of', async () => {
    const hashes = await vault.keyRing.hashes(vault.principal.tenant.id);
    const contentOf = async () => (await vault.stored('tok'))?.content ?? expect.fail('no token');
    const isSigned = (content: TokenContent, signature = content.index_signature) =>
      hashes.isSigned(searchIndexStatementOf('tok', content) ?? expect.fail('no hashes'), signature);
    await create({ search_indexes: ['{{ data.a }}', '{{ data.b.c }}'] });
    let before = await contentOf();
    expect(isSigned(before)).toBe(true);
    expect(isSigned({ ...before, index_hashes: before.index_hashes?.slice(1) })).toBe(false);
    // The second leaves the values of the indexes as they are.
    for (const patch of [{ data: { a: 2 } }, { data: { a: 2 } }, { search_indexes: ['{{ data.a }}'] }]) {
      await vault.update('tok', patch);
      const after = await contentOf();
      expect(isSigned(after)).toBe(true);
      expect(isSigned(after, before.index_signature)).toBe(false);
      before = after;
    }
    await vault.update('tok', { search_indexes: [] });
    expect((await contentOf()).index_signature).toBeUndefined();
  });

  it.each<[string, object, string]>([
    ['data that its type forbids', { data: { number: '4242424242424241' } }, 'data.number'],
    ['no data', { data: null }, 'data'],
    ['a field that its type needs removed', { data: { number: null } }, 'data.number'],
    ['a mask that does not parse', { mask: '{{ data.number | nope }}' }, 'mask'],
    ['an expiry in the past', { expires_at: '2029-12-31' }, 'expires_at'],
    [
      'more than 50 keys of metadata',
      { metadata: Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`k${n}`, 'v'])) },
      'metadata',
    ],
  ])('is refused with %s', async (_what, patch, field) => {
    await vault.create({ type: 'card', data: { number: card }, id: 'tok', metadata: { more: '1' } });
    const before = await vault.events();
    await expect(vault.update('tok', patch)).rejects.toMatchObject(refusal('validation_failed', field));
    expect(await vault.events()).toEqual(before);
  });

  it('is refused with an index without a value, and the log records that the error depends on the data', async () => {
    await vault.create({ type: 'card', data: { number: card }, id: 'tok' });
    const before = await vault.events();
    const patch = { search_indexes: ['{{ data.nothing }}'] };
    const error = refusal('validation_failed', 'search_indexes.0');
    await expect(vault.update('tok', patch)).rejects.toMatchObject(error);
    const tokens = [{ token_id: 'tok', token_type: 'card', transform: 'reveal' }];
    expect((await vault.events()).slice(before.length)).toMatchObject([
      { type: 'TokensRead', data: { operation: 'read', tokens } },
    ]);
  });

  it('that makes the stored data too large is refused, and the log records that the error depends on the data', async () => {
    await vault.create({ type: 'token', data: { secret: 'x'.repeat(1_000) }, id: 'tok' });
    const before = await vault.events();
    const patch = { data: { more: 'y'.repeat(512 * 1024 - 500) } };
    await expect(vault.update('tok', patch)).rejects.toMatchObject(refusal('validation_failed', 'data'));
    const tokens = [{ token_id: 'tok', token_type: 'token', transform: 'reveal' }];
    expect((await vault.events()).slice(before.length)).toMatchObject([
      { type: 'TokensRead', data: { operation: 'read', tokens } },
    ]);
  });

  it('cannot make a mask larger than the limit', async () => {
    await create();
    const big = (key: string) => ({
      mask: {
        [key]: 'x'
          .repeat(8000)
          .split('')
          .map(() => 12345678901),
      },
    });
    const grow = async () => {
      for (let n = 0; n < 10; n += 1) await vault.update('tok', big(`k${n}`));
    };
    await expect(grow()).rejects.toMatchObject(refusal('validation_failed', 'mask'));
  });

  it('needs its permission in the old and the new container', async () => {
    await create({ containers: ['/a/'] });
    await vault.create({ type: 'token', data: 1, id: 'other', containers: ['/b/'] });
    const rules = anyone().rules.map((rule) => ({ ...rule, container: '/a/' }));
    const as = { ...vault.principal, rules };
    await expect(vault.update('other', { containers: ['/a/'] }, { as })).rejects.toMatchObject(
      refusal('forbidden'),
    );
    await expect(vault.update('tok', { containers: ['/b/'] }, { as })).rejects.toMatchObject(
      refusal('forbidden'),
    );
    await expect(vault.update('tok', { containers: ['/a/b/'] }, { as })).resolves.toMatchObject({
      containers: ['/a/b/'],
    });
  });

  it('finds no token that is absent, deleted, expired or of another tenant', async () => {
    await expect(vault.update('tok', {})).rejects.toMatchObject(refusal('not_found'));
    await create();
    await vault.remove('tok');
    await expect(vault.update('tok', {})).rejects.toMatchObject(refusal('not_found'));
    await create({ expires_at: '2030-01-01T00:00:01Z' });
    vault.clock.advance(1000);
    await expect(vault.update('tok', {})).rejects.toMatchObject(refusal('not_found'));
    await vault.create({ type: 'token', data: 1, id: 'theirs' });
    await vault.newTenant();
    await expect(vault.update('theirs', {})).rejects.toMatchObject(refusal('not_found'));
  });

  it('shows nothing where the rule redacts', async () => {
    await create();
    const rules = anyone().rules.map((rule) => ({ ...rule, transform: 'redact' as const }));
    expect((await vault.update('tok', {}, { as: { ...vault.principal, rules } })).data).toBeUndefined();
  });

  it('is not lost among many at once', async () => {
    await create({ data: {} });
    const patches = Array.from({ length: 4 }, (_, n) => vault.update('tok', { data: { [`k${n}`]: n } }));
    await Promise.all(patches);
    expect((await vault.stored('tok'))?.data).toEqual({ k0: 0, k1: 1, k2: 2, k3: 3 });
  });

  it('ends as not found when the token is deleted meanwhile', async () => {
    await create();
    let isFirst = true;
    vault.faults.interpose = async (stream) => {
      if (!isFirst || !stream.startsWith('token-')) return;
      isFirst = false;
      await vault.remove('tok');
    };
    await expect(vault.update('tok', { data: { a: 2 } })).rejects.toMatchObject(refusal('not_found'));
    expect(await vault.keys()).toEqual([]);
  });
});

describe('an update that changes nothing', () => {
  const given = {
    mask: { a: 'X' },
    metadata: { a: 'b' },
    search_indexes: ['{{ data.a }}'],
    fingerprint_expression: '{{ data.a }}',
    containers: ['/a/'],
    expires_at: '1/2/2030',
  };
  const unchanged: [string, object][] = [
    ['no fields', {}],
    ['the present values', given],
    ['parts of them', { mask: {}, metadata: { a: 'b', none: null } }],
  ];

  it.each(unchanged)('by %s is the reading of the token, in a transaction too', async (_what, patch) => {
    const token = await create(given);
    const transaction = await vault.begin();
    const before = (await vault.events()).length;
    for (const options of [{}, { transaction }])
      expect(await vault.update('tok', patch, options)).toEqual({ ...token, data: { a: 1, b: { c: 2 } } });
    const read = {
      operation: 'read',
      tokens: [{ token_id: 'tok', token_type: 'token', transform: 'reveal' }],
    };
    const events = (await vault.events()).slice(before);
    expect(events.map(({ type, data }) => [type, data])).toEqual(
      Array.from({ length: 2 }, () => ['TokensRead', read]),
    );
    await vault.update('tok', { metadata: { not: 'locked' } });
  });

  it('shows what token:update and token:read show together', async () => {
    await create(given);
    const [rule = expect.fail()] = anyone().rules;
    const shownBy = async (update: Transform, read: Transform) => {
      const updating = { ...rule, permissions: ['token:update' as const], transform: update };
      const reading = { ...rule, priority: 2, permissions: ['token:read' as const], transform: read };
      const as = { ...vault.principal, rules: [updating, reading] };
      const { data } = await vault.update('tok', {}, { as });
      return [data, (await vault.events()).at(-1)?.data];
    };
    const reading = (transform: Transform) => ({
      operation: 'read',
      tokens: [{ token_id: 'tok', token_type: 'token', transform }],
    });
    expect(await shownBy('mask', 'reveal')).toEqual([{ a: 'X' }, reading('mask')]);
    expect(await shownBy('reveal', 'mask')).toEqual([{ a: 'X' }, reading('mask')]);
    expect(await shownBy('redact', 'reveal')).toEqual([undefined, reading('redact')]);
  });

  it.each<[string, object]>([
    ['data', { data: { a: 1 } }],
    ['the flag of deduplication', { deduplicate_token: false }],
  ])('is a change when it names %s, which not every caller is shown', async (_what, patch) => {
    await create({ deduplicate_token: false });
    vault.clock.advance(1_000);
    expect((await vault.update('tok', patch)).modified_at).toBe('2030-01-01T00:00:01.000Z');
  });

  it('is refused where a change would be', async () => {
    await create({ containers: ['/a/'] });
    const as = { ...vault.principal, rules: [], permissions: ['token:read'] as const };
    await expect(vault.update('tok', {}, { as })).rejects.toMatchObject(refusal('forbidden'));
    await vault.update('tok', { data: 2 }, { transaction: await vault.begin() });
    await expect(vault.update('tok', {})).rejects.toMatchObject(refusal('token_locked'));
  });
});

describe('patches of one token at the same time', () => {
  it('all succeed when each is of a metadata key of its own', async () => {
    await create();
    const keys = Array.from({ length: 16 }, (_, index) => `k${index}`);
    await Promise.all(keys.map((key) => vault.update('tok', { metadata: { [key]: 'set' } })));
    const { content } = (await vault.stored('tok')) ?? {};
    expect(content?.metadata).toEqual(Object.fromEntries(keys.map((key) => [key, 'set'])));
  });
});
