import { ExpressionsBusyError, type Token } from '@token-vault/contracts';
import {
  createExpressions,
  createInlineWorkers,
  limits,
  type ExpressionWorkers,
} from '@token-vault/expressions';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { principalOf, ruleOn, setUpVault, type Vault } from './vault.ts';

let vault: Vault;
let tenantId: string;
const inline = createInlineWorkers();
/** The processor time that each job is said to take. */
let jobMs: number;
let jobs: number;
let isBusy: boolean;
const workers: ExpressionWorkers = {
  ...inline,
  async run(...job) {
    jobs += 1;
    if (isBusy) throw new ExpressionsBusyError('busy');
    const { outcome, used } = await inline.run(...job);
    return { outcome, used: { ...used, ms: jobMs } };
  },
};
beforeAll(async () => {
  vault = await setUpVault({ expressions: createExpressions(workers) });
});
afterAll(() => vault.end());

beforeEach(async () => {
  [jobMs, jobs, isBusy] = [1, 0, false];
  tenantId = await vault.tenant({ data_misses_per_minute: '3' });
  const token = (token_id: string, pin: string, container: string) =>
    vault.token(tenantId, {
      token_id,
      data: { pin },
      search_indexes: ['{{ data.pin }}'],
      indexed: [pin],
      mask: { pin: '****' },
      containers: [container],
    });
  await token('foreign', '7319', '/pci/');
  await token('own', '1111', '/low/');
  await vault.settle();
});

/** May find the tokens of /low/, and sees masks. */
const thief = () => {
  const tenant = { id: tenantId, plan: 'standard' as const, settings: { data_misses_per_minute: '3' } };
  const searcher = { ...ruleOn('/low/', 'mask'), permissions: ['token:search' as const] };
  return principalOf(tenantId, { tenant, rules: [searcher] });
};
const search = async (query: string, principal = thief(), paging = {}) => {
  const found = await vault.call<{ pagination: { total_items: number }; data: Token[] }>(
    'searchTokens',
    principal,
    { body: { query, ...paging } },
  );
  return found.pagination.total_items;
};
const altered = { code: 'record_altered', status: 500 };

async function write(sql: string): Promise<void> {
  const client = await vault.pool.connect();
  await client.query('set search_path = rm_tokens');
  await client.query(sql, [tenantId]);
  client.release(true);
}
const movesForeign = `update token set container = '/low/' where tenant_id = $1 and id = 'foreign'`;
const copiesHash = `insert into token_search_index (tenant_id, token_id, hash)
  select tenant_id, 'own', hash from token_search_index where tenant_id = $1 and token_id = 'foreign'`;

describe('a search of data in rows that an attacker changed', () => {
  const queries = ['data:7319', 'data:7319 OR data:guess', 'NOT data:guess AND data:7319'];
  const pages = [{ size: 0 }, { page: 2 }, {}];

  it('is refused when a token of others was moved to where he finds it', async () => {
    expect(await search('data:7319', thief(), { size: 0 })).toBe(0);
    await write(movesForeign);
    for (const query of [...queries, 'NOT data:7319'])
      for (const paging of pages) await expect(search(query, thief(), paging)).rejects.toMatchObject(altered);
  });

  it('finds nothing by the hash of a token of others beside his own, and counts a miss', async () => {
    await write(copiesHash);
    for (const query of queries)
      for (const paging of pages) expect(await search(query, free(), paging), query).toBe(0);
    expect(await search('NOT data:7319', free())).toBe(await search('NOT data:7318', free()));
    const principal = thief();
    for (let n = 0; n < 3; n += 1) expect(await search('data:7319', principal)).toBe(0);
    await expect(search('data:7319', principal)).rejects.toMatchObject({ code: 'rate_limited' });
  });

  it('still finds what nobody changed', async () => {
    await write(movesForeign);
    expect(await search('data:1111')).toBe(1);
    expect(await search('data:1111 OR data:guess', thief(), { size: 0 })).toBe(1);
  });
});

/** Its value differs at each evaluation. */
const late = "{{ 'now' | date: '%s' }}";
/** A worker evaluates it. */
const complex = '{% if true %}{{ data }}{% endif %}';
const token = (token_id: string, index: string, { pin = '6789', isOld = false } = {}) =>
  vault.token(tenantId, {
    token_id,
    data: pin,
    search_indexes: [index],
    indexed: [pin],
    hasSignedIndexes: !isOld,
    containers: ['/low/'],
  });
/** Without a limit of misses. */
const free = () => principalOf(tenantId, { rules: thief().rules });

describe('a search of data whose matches other callers made', () => {
  const queries = ['data:6789', 'data:6789 OR data:guess', 'NOT data:guess AND data:6789'];

  it('evaluates no expression, whatever the indexes of its matches', async () => {
    for (let n = 0; n < 20; n += 1) await token(`late-${n}`, late);
    await token('slow', complex);
    await vault.settle();
    isBusy = true;
    const principal = thief();
    for (const query of [...queries, 'data:6789']) expect(await search(query, principal)).toBe(21);
    expect(await search('id:slow AND NOT data:6789')).toBe(0);
    expect(jobs).toBe(0);
  });

  it('believes signed hashes of the present data and expressions of a token alone', async () => {
    await token('signed', '{{ data }}');
    await token('other', '{{ data }}', { pin: '2222' });
    await vault.settle();
    const takes = (column: string) =>
      `update token set index_signature = (select ${column} from token where tenant_id = $1 and id = 'other')
       where tenant_id = $1 and id = 'signed'`;
    for (const column of ['index_signature', 'signature']) {
      await write(takes(column));
      expect(await search('data:6789', free()), column).toBe(0);
    }
    expect(await search('data:2222', free())).toBe(1);
  });
});

describe('a search of data that finds tokens of a release which did not sign their hashes', () => {
  it('finds those whose data gives the value', async () => {
    await token('old', complex, { isOld: true });
    await vault.settle();
    expect(await search('data:6789')).toBe(1);
    expect(await search('id:old AND NOT data:6789')).toBe(0);
  });

  it('tries signed ones first', async () => {
    await token('000-old', late, { isOld: true });
    await token('signed', late);
    await vault.settle();
    expect(await search('data:6789')).toBe(2);
    expect(jobs).toBe(0);
  });

  it('finds none whose expression gives another value by now, or none, or whose key is gone', async () => {
    await token('late', late, { isOld: true });
    await token('broken', '{{ data.pin | to_number }}', { pin: '2222', isOld: true });
    await token('gone', '{{ data }}', { pin: '3333', isOld: true });
    await vault.settle();
    await vault.keyRing.destroyKeysOfEntity(tenantId, 'token:gone');
    for (const pin of ['6789', '2222', '3333']) expect(await search(`data:${pin}`, free()), pin).toBe(0);
    expect(await search('data:6789 OR id:own', free())).toBe(1);
    expect(await search('id:own AND NOT data:6789', free())).toBe(1);
  });

  it('finds none by a hash that was planted, also when the signature was taken away', async () => {
    await write(copiesHash);
    await write(`update token set index_signature = null where tenant_id = $1 and id = 'own'`);
    expect(await search('data:7319', free())).toBe(0);
    expect(await search('data:1111', free())).toBe(1);
  });

  it('keeps the workers busy for no longer than one request may', async () => {
    const pins = Array.from({ length: 20 }, (_, n) => `pin-${n}`);
    for (const pin of pins) await token(`slow-${pin}`, complex, { pin, isOld: true });
    await vault.settle();
    jobMs = limits.jobMs;
    const query = pins.map((pin) => `data:${pin}`).join(' OR ');
    expect(await search(query)).toBe(limits.requestMs / limits.jobMs);
    expect(jobs).toBe(limits.requestMs / limits.jobMs);
  });

  it('keeps its tries counted when it is 503', async () => {
    await token('complex', complex, { isOld: true });
    await vault.settle();
    const principal = thief();
    isBusy = true;
    for (let n = 0; n < 2; n += 1)
      await expect(search('data:6789 OR data:guess', principal)).rejects.toThrow(ExpressionsBusyError);
    isBusy = false;
    await expect(search('data:6789', principal)).rejects.toMatchObject({ code: 'rate_limited' });
  });
});
