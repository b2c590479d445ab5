import { randomUUID } from 'node:crypto';
import type { Principal } from '@token-vault/access';
import { maxSeenTokens, type AccessRule, type Pagination, type Token } from '@token-vault/contracts';
import { RateLimitedError } from '@token-vault/http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { principalOf, ruleOn, setUpVault, type Vault } from './vault.ts';

let vault: Vault;
let tenantId: string;

beforeAll(async () => {
  vault = await setUpVault();
  tenantId = await vault.tenant();
  await vault.token(tenantId, { token_id: 'one', containers: ['/a/'], indexed: ['x', 'one'] });
  await vault.token(tenantId, { token_id: 'two', containers: ['/a/b/'], indexed: ['x', 'two'] });
  await vault.token(tenantId, { token_id: 'three', containers: ['/c/'], indexed: ['x', 'three'] });
  await vault.settle();
});
afterAll(() => vault.end());

interface TokenPage {
  readonly pagination: Pagination;
  readonly data: Token[];
}
const search = (query: string, principal: Principal, paging = {}) =>
  vault.call<TokenPage>('searchTokens', principal, { body: { query, ...paging } });
const idsOf = async (query: string, principal: Principal) =>
  (await search(query, principal)).data.map(({ id }) => id).sort();
const closed = (...rule: Parameters<typeof ruleOn>): AccessRule => ({
  ...ruleOn(...rule),
  search_data: false,
});
const ruled = (...rules: AccessRule[]) => principalOf(tenantId, { rules });

describe('a search by data under a rule that forbids it', () => {
  it.each<[string, () => Principal, string[]]>([
    ['finds nothing that the rule masks', () => ruled(closed('/', 'mask')), []],
    ['finds tokens that the rule reveals', () => ruled(closed('/', 'reveal')), ['one', 'three', 'two']],
    [
      'finds tokens that an earlier rule covers',
      () => ruled(ruleOn('/a/b/', 'mask', 1), closed('/', 'mask', 2)),
      ['two'],
    ],
    [
      'finds nothing that a rule after it covers',
      () => ruled(closed('/a/', 'mask', 1), ruleOn('/', 'reveal', 2)),
      ['three'],
    ],
    [
      'finds tokens that only plain permissions cover',
      () => principalOf(tenantId, { rules: [closed('/a/', 'redact')], permissions: ['token:search'] }),
      ['three'],
    ],
    [
      'finds no more for a session than for its authorizer',
      () => ({
        ...principalOf(tenantId),
        authorizer: { permissions: [], rules: [closed('/a/', 'mask', 1), ruleOn('/', 'mask', 2)] },
      }),
      ['three'],
    ],
  ])('%s', async (_what, principal, ids) => {
    expect(await idsOf('data:x', principal())).toEqual(ids);
    expect(await idsOf('data:x OR id:nothing', principal())).toEqual(ids);
  });

  it('gives the same answer for any data, also negated and beside other terms', async () => {
    const principal = ruled(closed('/', 'mask'));
    for (const value of ['one', 'guess']) {
      expect(await idsOf(`NOT data:${value}`, principal)).toEqual(['one', 'three', 'two']);
      expect(await idsOf(`id:one AND NOT data:${value}`, principal)).toEqual(['one']);
      expect((await search(`data:${value}`, principal, { size: 0 })).pagination.total_items).toBe(0);
    }
  });
});

describe('a search by data of a session', () => {
  const sides = {
    'plain permissions': () => ({ permissions: ['token:search' as const], rules: [] }),
    'a rule that masks': () => ({ permissions: [], rules: [ruleOn('/', 'mask')] }),
    'a closed rule that masks': () => ({ permissions: [], rules: [closed('/', 'mask')] }),
    'a rule that reveals': () => ({ permissions: [], rules: [ruleOn('/', 'reveal')] }),
    'a closed rule that reveals': () => ({ permissions: [], rules: [closed('/', 'reveal')] }),
  };
  type Side = keyof typeof sides;
  const all = Object.keys(sides) as Side[];
  const pairs = all.flatMap((own) => all.map((lent): [Side, Side] => [own, lent]));
  const isClosed = (side: Side) => side.includes('closed');
  const reveals = (side: Side) => side.includes('reveals');

  it.each(pairs)('of %s, whose authorizer has %s', async (own, lent) => {
    const session = { ...principalOf(tenantId, sides[own]()), authorizer: sides[lent]() };
    const isSearchable = !(isClosed(own) || isClosed(lent)) || (reveals(own) && reveals(lent));
    expect(await idsOf('data:one', session)).toEqual(isSearchable ? ['one'] : []);
    expect(await idsOf('id:one AND NOT data:one', session)).toEqual(isSearchable ? [] : ['one']);
    expect(await idsOf('data:guess', session)).toEqual([]);
  });
});

describe('the answer of a search by data', () => {
  const tokensOf = async (query: string, principal: Principal, paging = {}) => {
    const body = { query, ...paging };
    return (await vault.answerOf('searchTokens', principal, { body })).tokens ?? [];
  };
  const toldBy = async (...asked: Parameters<typeof tokensOf>) => {
    const ids = (await tokensOf(...asked)).map(({ id }) => id);
    return [...new Set(ids)].sort();
  };
  const all = () => principalOf(tenantId);

  it.each([
    ['data:x', ['one', 'three', 'two']],
    ['data:x AND container:/a/*', ['one', 'two']],
    ['data:one OR id:three', ['one', 'three']],
    ['id:one AND NOT data:one', ['one']],
    ['id:one AND NOT (data:one AND id:one)', ['one']],
    ['id:one AND NOT NOT data:two', []],
    ['data:one AND id:nothing', []],
  ])('names every token about which it reveals something, also outside its page: %s', async (query, ids) => {
    expect(await toldBy(query, all(), { size: 0 })).toEqual(ids);
    expect(await toldBy(query, all(), { page: 2 })).toEqual(ids);
    expect(await toldBy(query, all())).toEqual(ids);
  });

  it('declares tokens that it does not list as redacted, and the transform of the listed ones', async () => {
    const shown = { permission: 'token:search', transform: 'redact', isTold: true };
    expect(await tokensOf('data:one', all(), { size: 0 })).toMatchObject([{ id: 'one', by: 'seen', shown }]);
    const revealing = ruled({ ...ruleOn('/', 'reveal'), permissions: ['token:search'] });
    const listed = { permission: 'token:search', transform: 'reveal' };
    expect((await tokensOf('data:one', revealing)).map((token) => token.shown)).toEqual([listed, shown]);
  });

  it('names no token whose data may not be searched, or that the caller may not find', async () => {
    expect(await toldBy('id:one OR data:one', ruled(closed('/', 'mask')), { size: 0 })).toEqual([]);
    expect(await toldBy('data:x', ruled(ruleOn('/c/', 'mask')), { size: 0 })).toEqual(['three']);
  });

  it('declares more tokens than code may be shown when there are more, and that the list is not complete', async () => {
    const large = await vault.tenant();
    const seeds = Array.from({ length: maxSeenTokens + 2 }, () => ({ indexed: ['same'] }));
    await Promise.all(seeds.map((seed) => vault.token(large, seed)));
    await vault.settle();
    const found = await vault.answerOf('searchTokens', principalOf(large), {
      body: { query: 'data:same', size: 0 },
    });
    expect([found.tokens?.length, found.isUnrepeatable]).toEqual([maxSeenTokens + 1, true]);
  });

  it('does not declare unlisted tokens when no term is over data', async () => {
    expect(await toldBy('container:/a/*', all(), { size: 0 })).toEqual([]);
  });
});

describe('misses of searches by data', () => {
  const limited = (misses: string | undefined, more: Record<string, string> = {}) => {
    const settings = { ...(misses !== undefined && { data_misses_per_minute: misses }), ...more };
    return principalOf(tenantId, { tenant: { id: tenantId, plan: 'standard', settings } });
  };
  let guesses = 0;
  const guess = () => `data:g${(guesses += 1)}`;

  it('are refused after a hundred in a minute, with the time to wait', async () => {
    const principal = limited(undefined);
    const hundred = Array.from({ length: 100 }, guess).join(' OR ');
    await search(hundred, principal);
    const refusal = search('data:one', principal);
    await expect(refusal).rejects.toBeInstanceOf(RateLimitedError);
    await expect(refusal).rejects.toMatchObject({ code: 'rate_limited', retryAfterSeconds: 60 });
    await search('id:one', principal);
    await search('data:one', limited(undefined));
    vault.clock.advance(60_000);
    await search('data:one', principal);
  });

  it.each(['id:one OR data:GUESS', 'NOT data:GUESS', 'id:one AND (data:one OR data:GUESS)'])(
    'are counted by the term, whatever the query finds: %s',
    async (query) => {
      const principal = limited('2');
      await search(query.replace('GUESS', randomUUID()), principal);
      await search(query.replace('GUESS', randomUUID()), principal);
      await expect(search(guess(), principal)).rejects.toMatchObject({ code: 'rate_limited' });
    },
  );

  it.each([
    'data:DATA AND id:nothing',
    'id:one AND NOT data:DATA',
    'id:one OR NOT data:DATA',
    'id:two OR (data:DATA AND id:nothing)',
  ])('reveal no data that the answer does not contain: %s', async (query) => {
    for (const data of ['one', randomUUID()]) {
      const principal = limited('2');
      await search(query.replace('DATA', data), principal);
      await search(query.replace('DATA', data), principal);
      await expect(search(guess(), principal)).rejects.toMatchObject({ code: 'rate_limited' });
    }
  });

  it('count by application, for all its sessions and keys', async () => {
    const principal = limited('1');
    await search(guess(), principal);
    const session = { ...principal, actor: { kind: 'session', id: randomUUID() } } as Principal;
    await expect(search(guess(), session)).rejects.toMatchObject({ code: 'rate_limited' });
  });

  it('count when they come at the same time', async () => {
    const principal = limited('3');
    const done = await Promise.allSettled(Array.from({ length: 20 }, () => search(guess(), principal)));
    expect(done.filter(({ status }) => status === 'fulfilled')).toHaveLength(3);
  });

  it('are terms that find no token, or only tokens that the caller may not see', async () => {
    const principal = limited('1');
    for (let n = 0; n < 5; n += 1) await search('data:one AND data:x', principal);
    const narrow = { ...limited('1'), permissions: [], rules: [ruleOn('/c/', 'mask')] };
    await search('data:one', narrow);
    await expect(search('data:three', narrow)).rejects.toMatchObject({ code: 'rate_limited' });
  });

  it.each(['data:one', 'fingerprint:x', 'id:one OR NOT fingerprint:x'])(
    'are terms that find a token too, where hits count: %s',
    async (query) => {
      const principal = limited('2', { count_data_hits: 'true' });
      for (let n = 0; n < 2; n += 1) await search(query, principal);
      for (const refused of [query, 'data:one', 'fingerprint:y'])
        await expect(search(refused, principal)).rejects.toMatchObject({ code: 'rate_limited' });
      await search('id:one', principal);
      for (let n = 0; n < 3; n += 1) await search('fingerprint:x', limited('2'));
    },
  );

  it('are not hits of a caller that sees every token, where hits count', async () => {
    const rules = [ruleOn('/', 'reveal')];
    const principal = { ...limited('1', { count_data_hits: 'true' }), permissions: [], rules };
    for (let n = 0; n < 3; n += 1) await search('data:one', principal);
    await search(guess(), principal);
    await expect(search(guess(), principal)).rejects.toMatchObject({ code: 'rate_limited' });
  });

  it('are not limited by 0', async () => {
    const principal = limited('0');
    for (let n = 0; n < 3; n += 1) await search(Array.from({ length: 60 }, guess).join(' '), principal);
  });
});
