import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  ForbiddenError,
  NotFoundError,
  type JsonObject,
  type OperationId,
  type Token,
  type TokenPermission,
} from '@token-vault/contracts';
import {
  principalOf,
  recorded,
  ruleOn,
  setUpVault,
  unavailable,
  type TokenSeed,
  type Vault,
} from './vault.ts';

let vault: Vault;
let tenantId: string;

beforeAll(async () => {
  vault = await setUpVault();
});
afterAll(() => vault.end());
beforeEach(async () => {
  tenantId = await vault.tenant();
});
afterEach(() => vault.beforeRecord());

const card: TokenSeed = {
  token_type: 'card',
  data: { number: '4242424242424242', expiration_month: 12 },
  mask: { number: '{{ data.number | reveal_last: 4 }}', cvc: '{{ data.cvc }}' },
  containers: ['/pci/high/'],
};
const revealing = () => principalOf(tenantId, { rules: [ruleOn('/', 'reveal')] });
const get = (id: string, principal = principalOf(tenantId)) =>
  vault.call<Token>('getToken', principal, { params: { id } });

async function stored(seed: Parameters<Vault['token']>[1] = {}): Promise<string> {
  const id = await vault.token(tenantId, seed);
  await vault.settle();
  return id;
}

async function keyIdOfToken(id: string): Promise<string> {
  const { rows } = await vault.pool.query<{ id: string }>(
    'select id from key_ring.data_key where entity = $1',
    [`token:${id}`],
  );
  return rows[0]?.id ?? '';
}

describe('a token', () => {
  it('is answered with every field that is set, and no other', async () => {
    const creator = await stored({
      ...card,
      token_id: 'my card : 1',
      metadata: { Color: 'Blue' },
      search_indexes: ['{{ data.number | last4 }}'],
      fingerprint: 'f'.repeat(43),
      fingerprint_expression: '{{ data.number }}',
      expires_at: '2031-01-01T02:00:00+02:00',
    });
    const token = await get(creator);
    expect(token).toEqual({
      id: 'my card : 1',
      tenant_id: tenantId,
      type: 'card',
      data: { number: 'XXXXXXXXXXXX4242', cvc: null },
      mask: card.mask,
      containers: ['/pci/high/'],
      metadata: { Color: 'Blue' },
      search_indexes: ['{{ data.number | last4 }}'],
      fingerprint: 'f'.repeat(43),
      fingerprint_expression: '{{ data.number }}',
      expires_at: '2031-01-01T02:00:00+02:00',
      created_by: expect.any(String) as string,
      created_at: '2030-01-01T00:00:00.000Z',
    });
  });

  it('with nothing set has an empty list of search indexes', async () => {
    const token = await get(await stored(), revealing());
    expect(Object.keys(token).sort()).toEqual(
      ['containers', 'created_at', 'created_by', 'data', 'id', 'search_indexes', 'tenant_id', 'type'].sort(),
    );
    expect(token.search_indexes).toEqual([]);
  });

  it.each([
    ['plain permissions mask', () => principalOf(tenantId), { number: 'XXXXXXXXXXXX4242', cvc: null }],
    ['a rule reveals', () => revealing(), card.data],
    [
      'a rule redacts',
      () => principalOf(tenantId, { rules: [ruleOn('/pci/', 'redact')], permissions: ['token:read'] }),
      undefined,
    ],
    [
      'the first rule by priority decides',
      () => principalOf(tenantId, { rules: [ruleOn('/PCI/high/', 'reveal', 1), ruleOn('/', 'redact', 2)] }),
      card.data,
    ],
  ])('is shown as the caller may see it: %s', async (_case, principal, data) => {
    expect((await get(await stored(card), principal())).data).toEqual(data);
  });

  it.each([[0], [false], [''], [null], [[]]])('whose data is %j is revealed as it is', async (data) => {
    expect(await get(await stored({ data }), revealing())).toHaveProperty('data', data);
  });

  it('without a mask shows no data to a caller with masked access', async () => {
    expect(await get(await stored())).not.toHaveProperty('data');
  });

  it('whose mask cannot be applied to its data shows no data', async () => {
    const id = await stored({ data: 'no number', mask: '{{ data | to_number }}' });
    const token = await get(id);
    expect(token).not.toHaveProperty('data');
    expect(token.mask).toBe('{{ data | to_number }}');
  });

  it('in a container that no rule covers is refused', async () => {
    const principal = principalOf(tenantId, { rules: [ruleOn('/pci/', 'reveal')] });
    await expect(get(await stored(), principal)).rejects.toThrow(ForbiddenError);
  });

  it('of another tenant is not found', async () => {
    const id = await stored({ token_id: 'shared-name' });
    const other = await vault.tenant();
    const theirs = principalOf(other, { rules: [ruleOn('/', 'reveal')] });
    await expect(get(id, theirs)).rejects.toThrow(NotFoundError);
    await vault.token(other, { token_id: id, data: 'theirs' });
    await vault.settle();
    const [mine, their] = await Promise.all([get(id, revealing()), get(id, theirs)]);
    expect([mine.data, their.data]).toEqual(['plain text', 'theirs']);
  });

  it('is not found from the instant it expires at', async () => {
    const id = await stored({ expires_at: '2030-01-01T00:00:01Z' });
    vault.clock.set('2030-01-01T00:00:00.999Z');
    expect((await get(id)).expires_at).toBe('2030-01-01T00:00:01Z');
    vault.clock.set('2030-01-01T00:00:01.000Z');
    await expect(get(id)).rejects.toThrow(NotFoundError);
    vault.clock.set('2030-01-01T00:00:00Z');
  });

  it('whose keys have just been destroyed is not found', async () => {
    const id = await stored();
    await vault.keyRing.destroyKeysOfEntity(tenantId, `token:${id}`);
    await expect(get(id, revealing())).rejects.toThrow(NotFoundError);
  });

  it('whose sealed data was exchanged for another token’s is an error, not an answer', async () => {
    const [one, other] = [await stored({ data: 'one' }), await stored({ data: 'other' })];
    const client = await vault.pool.connect();
    await client.query('set search_path = rm_tokens');
    await client.query('update token t set data = o.data from token o where t.id = $1 and o.id = $2', [
      one,
      other,
    ]);
    client.release(true);
    await expect(get(one, revealing())).rejects.toMatchObject({ code: 'record_altered' });
  });

  it.each(["'; drop table rm_tokens.token; --", '{"a","b"}', '{}', 'NULL', '\\', '%', 'x'.repeat(400), '😀'])(
    'is searched by any id: %s',
    async (id) => {
      await expect(get(id)).rejects.toThrow(NotFoundError);
      expect((await get(await stored({ token_id: id }))).id).toBe(id);
    },
  );

  it('is distinguished from others that are requested at the same time', async () => {
    const ids = await Promise.all(
      Array.from({ length: 300 }, (_, index) => vault.token(tenantId, { data: index })),
    );
    await vault.settle();
    const reads = [...ids, ...ids].map((id) => get(id, revealing()));
    const misses = ids.map(() => get(randomUUID()).catch((error: unknown) => error));
    const tokens = await Promise.all(reads);
    expect(tokens.map(({ data }) => data)).toEqual([...ids.keys(), ...ids.keys()]);
    expect((await Promise.all(misses)).every((error) => error instanceof NotFoundError)).toBe(true);
  });
});

describe('a card’s cvc', () => {
  const withCvc = { ...card, cvc: '123', cvc_expires_at: '2030-01-01T01:00:00Z' };
  afterEach(() => vault.clock.set('2030-01-01T00:00:00Z'));

  it('is part of the data for an hour', async () => {
    const id = await stored(withCvc);
    vault.clock.set('2030-01-01T00:59:59.999Z');
    expect((await get(id, revealing())).data).toEqual({ ...(card.data as JsonObject), cvc: '123' });
    expect((await get(id)).data).toMatchObject({ cvc: '123' });
  });

  it.each<[OperationId, TokenPermission, (id: string) => object]>([
    ['getToken', 'token:read', (id) => ({ params: { id } })],
    ['listTokens', 'token:read', () => ({})],
    ['searchTokens', 'token:search', (id) => ({ body: { query: `id:"${id}"` } })],
  ])('is told by the answer of %s to end', async (operation, permission, requestFor) => {
    const id = await stored(withCvc);
    const told = async () => (await vault.answerOf(operation, revealing(), requestFor(id))).tokens;
    vault.clock.set('2030-01-01T00:59:59.999Z');
    const shown = { permission, transform: 'reveal' };
    expect(await told()).toEqual([
      {
        id,
        createdAt: expect.any(String) as string,
        by: 'seen',
        shown,
        cvcEndsAt: '2030-01-01T01:00:00.000Z',
      },
    ]);
    vault.clock.set('2030-01-01T01:00:00Z');
    expect(await told()).toEqual([
      { id, createdAt: expect.any(String) as string, by: 'seen', shown, cvcEndsAt: undefined },
    ]);
  });

  it('is not shown after its hour, by masks too, even if it was not purged', async () => {
    const id = await stored(withCvc);
    vault.clock.set('2030-01-01T01:00:00Z');
    expect((await get(id, revealing())).data).toEqual(card.data);
    expect((await get(id)).data).toMatchObject({ cvc: null });
  });

  it('is not shown without its key, while the rest of the card stays', async () => {
    const id = await stored(withCvc);
    const { rows } = await vault.pool.query<{ id: string }>(
      `select id from key_ring.data_key where tenant_id = $1 and purpose = 'cvc'`,
      [tenantId],
    );
    await vault.keyRing.destroyKeys(
      tenantId,
      rows.map((row) => row.id),
    );
    expect((await get(id, revealing())).data).toEqual(card.data);
  });
});

describe('the record of a read', () => {
  it.each(['redact', 'mask', 'reveal'] as const)(
    'is made when the data is shown by %s',
    async (transform) => {
      const id = await stored(card);
      await get(id, principalOf(tenantId, { rules: [ruleOn('/', transform)] }));
      expect(await recorded(vault, tenantId, 'TokensRead')).toEqual([
        { operation: 'read', tokens: [{ token_id: id, token_type: 'card', transform }] },
      ]);
    },
  );

  it('that cannot be made prevents the answer', async () => {
    const id = await stored(card);
    vault.beforeRecord(() => Promise.reject(unavailable));
    await expect(get(id)).rejects.toBe(unavailable);
    await expect(get(id, revealing())).rejects.toBe(unavailable);
  });

  it('is awaited before anything is answered', async () => {
    const id = await stored(card);
    const held = Promise.withResolvers<void>();
    const isRecording = new Promise<void>((resolve) => {
      vault.beforeRecord(() => {
        resolve();
        return held.promise;
      });
    });
    let isAnswered = false;
    const answer = get(id, revealing()).then(() => (isAnswered = true));
    await isRecording;
    // A second read of the same key has finished, so the data of the first read is certainly open.
    await vault.keyRing.openKey(tenantId, await keyIdOfToken(id));
    expect(isAnswered).toBe(false);
    held.resolve();
    await answer;
  });

  it('is not written for a token that was not found or was refused', async () => {
    const id = await stored();
    await get('absent').catch(() => undefined);
    await get(id, principalOf(tenantId, { rules: [ruleOn('/pci/', 'reveal')] })).catch(() => undefined);
    expect(await recorded(vault, tenantId, 'TokensRead')).toEqual([]);
  });
});
