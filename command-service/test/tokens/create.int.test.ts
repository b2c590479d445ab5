import { describe, expect, it } from 'vitest';
import { anyone, card, refusal, useVault, type TestVault } from './vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));

describe('a created token', () => {
  it('is answered with all its fields', async () => {
    const token = await vault.create({
      type: 'card',
      data: { number: card, expiration_month: 4, cvc: '123', holder: 'ignored' },
      metadata: { color: 'red' },
      expires_at: '8/26/2030 7:23:57 PM -07:00',
      search_indexes: ['{{ data.number | last4 }}'],
    });
    expect(token).toEqual({
      id: expect.stringMatching(/^[\da-f-]{36}$/) as unknown,
      tenant_id: vault.principal.tenant.id,
      type: 'card',
      data: { number: card, expiration_month: 4, cvc: '123' },
      mask: {
        number: '{{ data.number | reveal_last: 4 }}',
        expiration_month: '{{ data.expiration_month }}',
        expiration_year: '{{ data.expiration_year }}',
      },
      containers: ['/pci/high/'],
      metadata: { color: 'red' },
      search_indexes: ['{{ data.number | last4 }}'],
      expires_at: '2030-08-26T19:23:57-07:00',
      created_by: 'app',
      created_at: '2030-01-01T00:00:00.000Z',
    });
    expect(await vault.keys()).toEqual([`${token.id} cvc`, `${token.id} data`]);
  });

  it('is in the log in sealed form only', async () => {
    await vault.create({
      type: 'card',
      data: { number: card, cvc: '737' },
      fingerprint_expression: '{{ data.number }}',
    });
    expect(JSON.stringify(await vault.events())).not.toMatch(new RegExp(`${card}|"737"`));
  });

  it.each([
    ['mask', 'XXXXXXXXXXXX4242'],
    ['reveal', card],
    ['redact', undefined],
  ] as const)('shows its data by the rule that allowed it: %s', async (transform, shown) => {
    const rules = anyone().rules.map((rule) => ({ ...rule, transform }));
    const token = await vault.create(
      { type: 'card_number', data: card },
      { as: { ...vault.principal, rules } },
    );
    expect(token.data).toEqual(shown);
  });

  it('is masked for a plain permission', async () => {
    const as = { ...vault.principal, rules: [], permissions: ['token:create'] as const };
    expect((await vault.create({ type: 'card_number', data: card }, { as })).data).toBe('XXXXXXXXXXXX4242');
    expect((await vault.create({ type: 'token', data: 'x' }, { as })).data).toBeUndefined();
  });

  it('has a fingerprint only when the request or a setting asks for one', async () => {
    const plain = await vault.create({ type: 'token', data: 'a' });
    expect(plain).not.toHaveProperty('fingerprint', expect.anything());
    const asked = await vault.create({ type: 'token', data: 'a', fingerprint_expression: '{{ data }}' });
    expect(asked.fingerprint).toMatch(/^[1-9A-HJ-NP-Za-km-z]{43,44}$/);
    await vault.newTenant({ fingerprint_tokens: 'true' });
    const always = await vault.create({ type: 'token', data: 'a' });
    expect(always.fingerprint_expression).toBe('{{ data | stringify }}');
    expect(always.fingerprint).not.toBe(asked.fingerprint);
  });
});

describe('a token is refused', () => {
  it.each<[string, object, string[]]>([
    ['a card that fails Luhn', { type: 'card', data: { number: '4242424242424241' } }, ['data.number']],
    [
      'a card without number, in the thirteenth month',
      { type: 'card', data: { expiration_month: 13 } },
      ['data.number', 'data.expiration_month'],
    ],
    [
      'an expression that does not parse',
      { type: 'token', data: 1, mask: { a: '{{ data | nope }}' } },
      ['mask.a'],
    ],
    [
      'an index without value',
      { type: 'token', data: {}, search_indexes: ['{{ 1 }}', '{{ data.x }}'] },
      ['search_indexes.1'],
    ],
    [
      'a fingerprint without value',
      { type: 'token', data: {}, fingerprint_expression: '{{ data.x }}' },
      ['fingerprint_expression'],
    ],
    [
      'an index of a cvc',
      { type: 'card', data: { number: card, cvc: '123' }, search_indexes: ['{{ data.cvc }}'] },
      ['search_indexes.0'],
    ],
    [
      'an id made of a cvc',
      { type: 'card', data: { number: card, cvc: '123' }, id: '{{ data.cvc }}' },
      ['id'],
    ],
    ['an expiry in the past', { type: 'token', data: 1, expires_at: '1/1/2030' }, ['expires_at']],
    ['an id with a slash', { type: 'token', data: 1, id: 'a/b' }, ['id']],
    ['an expression that gives no id', { type: 'token', data: 1, id: '{{ data }}' }, ['id']],
    ['data above 512 KiB', { type: 'token', data: 'x'.repeat(512 * 1024 - 1) }, ['data']],
  ])('for %s', async (_what, body, fields) => {
    await expect(vault.create(body)).rejects.toMatchObject(refusal('validation_failed', ...fields));
    expect(await vault.events()).toEqual([]);
    expect(await vault.keys()).toEqual([]);
  });

  it('with an error that contains none of its data', async () => {
    const secret = '4111222233334444';
    const bodies = [
      { type: 'card', data: { number: secret, cvc: secret, expiration_month: secret } },
      { type: 'bank', data: { routing_number: secret, account_number: `${secret}${secret}` } },
      { type: 'social_security_number', data: secret },
      { type: 'token', data: secret, search_indexes: ['{{ data | json: "$.x" }}'] },
      { type: 'token', data: { a: secret }, fingerprint_expression: '{{ data | to_number }}' },
      { type: 'token', data: secret, mask: '{{ data | pad_left: data, "x" }}' },
      { type: 'token', data: `${secret}/`, id: '{{ data }}' },
    ];
    for (const body of bodies) {
      const error: unknown = await vault.create(body).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: 'validation_failed' });
      expect(`${String(error)}${JSON.stringify(error)}${(error as Error).stack}`).not.toContain(secret);
    }
  });

  it('in a container that no rule grants', async () => {
    const rules = anyone().rules.map((rule) => ({ ...rule, container: '/pci/' }));
    const as = { ...vault.principal, rules };
    await expect(vault.create({ type: 'token', data: 1 }, { as })).rejects.toMatchObject(
      refusal('forbidden'),
    );
    await expect(
      vault.create({ type: 'token', data: 1, containers: ['/PCI/low/'] }, { as }),
    ).resolves.toBeDefined();
  });

  it('under an id that the rule does not grant, also one that is drawn', async () => {
    const rules = anyone().rules.map((rule) => ({
      ...rule,
      container: undefined,
      conditions: [{ attribute: 'id' as const, operator: 'starts_with' as const, value: 'user-' }],
    }));
    const as = { ...vault.principal, rules };
    await expect(vault.create({ type: 'token', data: 'x' }, { as })).rejects.toMatchObject(
      refusal('forbidden'),
    );
    await expect(
      vault.create({ type: 'token', data: 'other', id: '{{ data }}' }, { as }),
    ).rejects.toMatchObject(refusal('forbidden'));
    const drawn = await vault.create({ type: 'token', data: 'user-1', id: '{{ data }}' }, { as });
    expect(drawn.id).toBe('user-1');
  });
});

describe('an id', () => {
  it('of the caller is taken once', async () => {
    await vault.create({ type: 'token', data: 1, id: 'mine' });
    await expect(vault.create({ type: 'token', data: 2, id: 'mine' })).rejects.toMatchObject(
      refusal('token_id_taken'),
    );
    expect(await vault.keys()).toEqual(['mine data']);
    expect((await vault.stored('mine'))?.data).toBe(1);
  });

  it('may be used again after deletion, under a new key', async () => {
    await vault.create({ type: 'token', data: 1, id: 'mine' });
    await vault.remove('mine');
    expect(await vault.keys()).toEqual([]);
    await vault.create({ type: 'token', data: 2, id: 'mine' });
    expect((await vault.stored('mine'))?.data).toBe(2);
  });

  it('may be used again after expiry, and the expired token is erased', async () => {
    await vault.create({ type: 'token', data: 1, id: 'mine', expires_at: '2030-01-01T00:00:01Z' });
    vault.clock.advance(999);
    await expect(vault.create({ type: 'token', data: 2, id: 'mine' })).rejects.toMatchObject(
      refusal('token_id_taken'),
    );
    vault.clock.advance(1);
    await vault.create({ type: 'token', data: 2, id: 'mine' });
    expect((await vault.stored('mine'))?.data).toBe(2);
    expect(await vault.keys()).toEqual(['mine data']);
  });

  it('belongs to one tenant only', async () => {
    await vault.create({ type: 'token', data: 1, id: 'mine' });
    await vault.newTenant();
    expect((await vault.create({ type: 'token', data: 2, id: 'mine' })).id).toBe('mine');
  });

  it('may hold characters that are special in streams and paths', async () => {
    for (const id of ['a.b', 'a b', 'ä-ö', '../..'.replaceAll('/', ':'), '%'.replace('%', '$all'), 'ключ']) {
      expect((await vault.create({ type: 'token', data: id, id })).id).toBe(id);
      expect((await vault.stored(id))?.data).toBe(id);
    }
  });

  it('from an expression that always gives a taken id becomes a UUID in the end', async () => {
    const ids = [];
    for (let n = 0; n < 3; n += 1)
      ids.push((await vault.create({ type: 'token', data: 'same', id: '{{ data }}' })).id);
    expect(ids[0]).toBe('same');
    expect(ids[1]).toMatch(/^[\da-f-]{36}$/);
    expect(new Set(ids).size).toBe(3);
    expect(await vault.keys()).toHaveLength(3);
  });

  it('drawn as an alias is drawn again when it collides', async () => {
    const ids = new Set<string>();
    for (let n = 0; n < 12; n += 1)
      ids.add(
        (await vault.create({ type: 'token', data: 'abc1', id: '{{ data | alias_preserve_format: 3 }}' })).id,
      );
    expect(ids.size).toBe(12);
    expect([...ids].filter((id) => /^abc\d$/.test(id)).length).toBeGreaterThanOrEqual(5);
  });

  it('requested by many callers at once is given to one of them', async () => {
    const all = await Promise.allSettled(
      Array.from({ length: 10 }, (_, n) => vault.create({ type: 'token', data: n, id: 'mine' })),
    );
    expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    for (const each of all)
      if (each.status === 'rejected') expect(each.reason).toMatchObject(refusal('token_id_taken'));
    expect(await vault.keys()).toEqual(['mine data']);
  });
});

describe('a create that is repeated under its idempotency key', () => {
  const body = { type: 'token', data: 'once' };
  it.each([
    ['with a drawn id', body],
    ['with its own id', { ...body, id: 'mine' }],
    ['with a fingerprint', { ...body, fingerprint_expression: '{{ data }}' }],
    ['deduplicated', { ...body, deduplicate_token: true }],
  ])('after its answer was lost gives the first token and leaves no key behind: %s', async (_what, given) => {
    vault.faults.decide = (stream) => (stream.startsWith('token-') ? 'after' : undefined);
    await expect(vault.create(given, { idempotencyKey: 'k' })).rejects.toThrow('cut off after');
    vault.faults.decide = () => undefined;
    vault.restart();
    const token = await vault.create(given, { idempotencyKey: 'k' });
    expect(await vault.live()).toEqual([token.id]);
    expect(token.data).toBe('once');
    expect(await vault.keys()).toEqual([`${token.id} data`]);
  });

  it('shows the stored token, not the body of the repeat', async () => {
    const first = await vault.create(body, { idempotencyKey: 'k' });
    const second = await vault.create({ ...body, data: 'twice' }, { idempotencyKey: 'k' });
    expect(second).toMatchObject({ id: first.id, data: 'once' });
  });
});

describe('an append that fails', () => {
  it('for certain destroys its keys', async () => {
    await vault.create({ type: 'token', data: 1, id: 'mine' });
    const [before] = [await vault.keys()];
    await vault.create({ type: 'token', data: 1, id: 'mine' }).catch(() => undefined);
    expect(await vault.keys()).toEqual(before);
  });
  it('with an unknown outcome keeps its keys', async () => {
    vault.faults.decide = () => 'after';
    await expect(vault.create({ type: 'token', data: 1, id: 'mine' })).rejects.toThrow('cut off');
    vault.faults.decide = () => undefined;
    expect((await vault.stored('mine'))?.data).toBe(1);
    expect(await vault.keys()).toEqual(['mine data']);
  });
  it('at the claim destroys its keys, because no token was sent', async () => {
    vault.faults.decide = (stream) => (stream.startsWith('fingerprint-') ? 'before' : undefined);
    const given = { type: 'token', data: 1, id: 'mine', fingerprint_expression: '{{ data }}' };
    await expect(vault.create(given)).rejects.toThrow('cut off');
    vault.faults.decide = () => undefined;
    expect(await vault.keys()).toEqual([]);
  });
});
