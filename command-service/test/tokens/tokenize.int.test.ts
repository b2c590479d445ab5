import { beforeEach, describe, expect, it } from 'vitest';
import { anyone, card, refusal, useVault, type TestVault } from './vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));

const uuid = expect.stringMatching(/^[\da-f]{8}-/) as unknown;
const dataOf = async (id: unknown) => (await vault.stored(id as string))?.data;

describe('tokenize', () => {
  it('turns leaves into ids and objects with type and data into tokens, and leaves null and shapes', async () => {
    const answer = (await vault.tokenize({
      name: 'Jane',
      age: 42,
      ok: false,
      nothing: null,
      list: ['x', [null, 'y'], {}],
      card: { type: 'card', data: { number: card }, metadata: { a: 'b' } },
    })) as Record<string, unknown>;
    expect(answer).toEqual({
      name: uuid,
      age: uuid,
      ok: uuid,
      nothing: null,
      list: [uuid, [null, uuid], {}],
      card: expect.objectContaining({
        id: uuid,
        type: 'card',
        data: { number: card },
        metadata: { a: 'b' },
      }) as unknown,
    });
    expect([await dataOf(answer.name), await dataOf(answer.age), await dataOf(answer.ok)]).toEqual([
      'Jane',
      42,
      false,
    ]);
    expect(await vault.live()).toHaveLength(6);
  });

  it.each([['x'], [0], [false], ['']])('takes a single %j', async (leaf) => {
    expect(await dataOf(await vault.tokenize(leaf))).toEqual(leaf);
  });

  it.each([[null], [[]], [{}], [{ a: [null, {}] }]])('makes no token for %j', async (payload) => {
    expect(await vault.tokenize(payload)).toEqual(payload);
    expect(await vault.events()).toEqual([]);
  });

  it('keeps property names with a meaning in JavaScript', async () => {
    const payload = JSON.parse('{"__proto__":{"x":1},"constructor":2,"toString":3}') as object;
    const answer = await vault.tokenize(payload);
    expect(Object.keys(answer as object)).toEqual(['__proto__', 'constructor', 'toString']);
    expect(await vault.live()).toHaveLength(3);
  });

  it('accepts a hundred tokens and no more', async () => {
    const leaves = Array.from({ length: 100 }, (_, n) => n);
    expect(await vault.tokenize(leaves)).toHaveLength(100);
    expect(await vault.keys()).toHaveLength(100);
    await expect(vault.tokenize([...leaves, 100])).rejects.toMatchObject(
      refusal('validation_failed', 'body'),
    );
    expect(await vault.live()).toHaveLength(100);
  });

  it('deduplicates within the payload', async () => {
    await vault.newTenant({ deduplicate_tokens: 'true' });
    const [one, two, three] = (await vault.tokenize(['a', 'b', 'a'])) as string[];
    expect(one).toBe(three);
    expect(one).not.toBe(two);
    expect(await vault.live()).toHaveLength(2);
  });

  it('works for a session, which owns the transaction of the request', async () => {
    const as = { ...vault.principal, actor: { kind: 'session', id: 'session' } as const };
    expect(await vault.tokenize(['a', 'b'], { as })).toEqual([uuid, uuid]);
  });

  it('works on the standard plan', async () => {
    const tenant = { ...vault.principal.tenant, plan: 'standard' as const };
    expect(await vault.tokenize(['a', 'b'], { as: { ...vault.principal, tenant } })).toEqual([uuid, uuid]);
  });
});

describe('an object of a payload with far too many entries', () => {
  it.each([
    ['metadata', Object.fromEntries(Array.from({ length: 60_000 }, (_, n) => [`k${n}`, 1])), /at most 50/],
    ['search_indexes', Array(200_000).fill(1), /at most 10/],
  ])('is one fault, of its count: %s', async (field, value, message) => {
    const payload = { a: [0, { type: 'token', data: 1, [field]: value }] };
    const refused = await vault.tokenize(payload).then(
      () => undefined,
      (error: unknown) => error as { errors: Record<string, string[]> },
    );
    expect(refused?.errors).toEqual({ [`a.1.${field}`]: [expect.stringMatching(message)] });
  });
});

describe('a tokenize with a failing part', () => {
  const bad: [string, object, string, string[]][] = [
    [
      'data',
      { type: 'card', data: { number: '4242424242424241' } },
      'validation_failed',
      ['a.1.data.number'],
    ],
    ['type', { type: 'nope', data: 1 }, 'validation_failed', ['a.1.type']],
    ['id', { type: 'token', data: 1, id: 'a/b' }, 'validation_failed', ['a.1.id']],
    ['expression', { type: 'token', data: 1, mask: '{{ data | nope }}' }, 'validation_failed', ['a.1.mask']],
    ['taken id', { type: 'token', data: 1, id: 'taken' }, 'token_id_taken', []],
    ['container', { type: 'token', data: 1, containers: ['/forbidden/'] }, 'forbidden', []],
  ];
  const general = anyone().rules.map((rule) => ({ ...rule, container: '/general/' }));
  beforeEach(() => vault.create({ type: 'token', data: 1, id: 'taken' }));

  it.each(bad)('leaves no tokens: %s', async (_what, part, code, fields) => {
    const as = code === 'forbidden' ? { ...vault.principal, rules: general } : vault.principal;
    await expect(vault.tokenize({ a: ['first', part, 'last'] }, { as })).rejects.toMatchObject(
      refusal(code, ...fields),
    );
    expect(await vault.live()).toEqual(['taken']);
    expect(await vault.keys()).toEqual(['taken data']);
  });

  it.each(bad)('in a transaction leaves no tokens for its commit: %s', async (_what, part, code, fields) => {
    const as = code === 'forbidden' ? { ...vault.principal, rules: general } : vault.principal;
    const transaction = await vault.begin();
    const payload = { a: [{ type: 'token', data: 1, id: 'first' }, part, 'last'] };
    await expect(vault.tokenize(payload, { transaction, as })).rejects.toMatchObject(
      refusal(code, ...fields),
    );
    await vault.end('commit', transaction);
    expect(await vault.live()).toEqual(['taken']);
    expect(await vault.keys()).toEqual(['taken data']);
  });

  it.each([1, 2, 3, 4, 5, 6, 7, 8])(
    'by a store that fails at append %i leaves all tokens or none',
    async (nth) => {
      for (const fault of ['before', 'after'] as const) {
        let appends = 0;
        vault.faults.decide = () => ((appends += 1) === nth ? fault : undefined);
        await vault.tokenize(['x', 'y']).catch(() => undefined);
        vault.faults.decide = () => undefined;
        vault.restart();
        vault.clock.advance(60 * 60 * 1000);
        const live = await vault.live();
        expect([1, 3]).toContain(live.length);
        for (const id of live) if (id !== 'taken') await vault.remove(id);
      }
    },
  );

  it('reveals nothing of the data', async () => {
    const secret = '4111222233334444';
    const error: unknown = await vault
      .tokenize([secret, { type: 'bank', data: { routing_number: secret, account_number: [secret] } }])
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject(
      refusal('validation_failed', '1.data.routing_number', '1.data.account_number'),
    );
    expect(`${JSON.stringify(error)}${(error as Error).stack}`).not.toContain(secret);
  });
});

describe('a tokenize repeated under its idempotency key', () => {
  it.each([1, 2, 3, 4, 5, 6, 7])('after a failure at append %i gives each token once', async (nth) => {
    let appends = 0;
    vault.faults.decide = () => ((appends += 1) >= nth ? (appends === nth ? 'after' : 'before') : undefined);
    await vault.tokenize(['x', 'y'], { idempotencyKey: 'k' }).catch(() => undefined);
    vault.faults.decide = () => undefined;
    vault.restart();
    const answer = (await vault.tokenize(['x', 'y'], { idempotencyKey: 'k' })) as string[];
    expect(await vault.live()).toEqual([...answer].sort());
    expect([await dataOf(answer[0]), await dataOf(answer[1])]).toEqual(['x', 'y']);
  });
});
