import type { Token } from '@token-vault/contracts';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { managerOf, principalOf, recorded, ruleOn, setUpVault, type Vault } from './vault.ts';

let vault: Vault;
let tenantId: string;
const count = 24;
const ids = Array.from({ length: count }, (_, at) => `large-${String(at).padStart(2, '0')}`);

beforeAll(async () => {
  vault = await setUpVault();
  tenantId = await vault.tenant();
  for (const id of ids) {
    const mask = '{{ data | last4 }}';
    await vault.token(tenantId, { token_id: id, data: `${'x'.repeat(500_000)}${id.slice(-2)}`, mask });
  }
  await vault.token(tenantId, { token_id: 'small', data: '4242', mask: '{{ data | last4 }}' });
  await vault.settle();
});
afterAll(() => vault.end());
afterEach(() => void Reflect.deleteProperty(vault.pool, 'query'));

/** Characters of the rows that each statement of the vault gives from now on. */
function watchStatements() {
  const sizes: number[] = [];
  const query = vault.pool.query.bind(vault.pool) as (...args: unknown[]) => Promise<{ rows: object[] }>;
  const watched = async (...args: unknown[]) => {
    const result = await query(...args);
    sizes.push(JSON.stringify(result.rows).length);
    return result;
  };
  Object.assign(vault.pool, { query: watched });
  return sizes;
}

const oneRow = 750_000;
const partBytes = 2 * 1024 * 1024;
const masked = () => principalOf(tenantId);
const list = (principal = masked()) =>
  vault.call<{ data: Token[] }>('listTokens', principal, { query: { size: '100' } });

describe('a page of masked tokens with large data', () => {
  it('is given in its order, and no statement reads more than a part of it', async () => {
    const sizes = watchStatements();
    const { data } = await list();
    expect(data.map(({ id }) => id)).toEqual(['small', ...ids.toReversed()]);
    expect(data.slice(1).every((token) => token.data === `xx${token.id.slice(-2)}`)).toBe(true);
    expect(Math.max(...sizes)).toBeLessThan(partBytes + oneRow);
    expect(Math.max(...sizes)).toBeGreaterThan(oneRow);
  });

  it('is recorded as it is shown', async () => {
    await list();
    const events = await recorded(vault, tenantId, 'TokensRead');
    const tokens = events.at(-1)?.tokens ?? [];
    expect(tokens).toHaveLength(count + 1);
    expect(new Set(tokens.map(({ transform }) => transform))).toEqual(new Set(['mask']));
  });

  it('is detokenized in parts, too', async () => {
    const sizes = watchStatements();
    const body = Object.fromEntries(ids.map((id) => [id, `{{ ${id} }}`]));
    const { data } = await vault.call<{ data: Record<string, string> }>('detokenize', masked(), { body });
    expect(ids.every((id) => data[id] === `xx${id.slice(-2)}`)).toBe(true);
    expect(Math.max(...sizes)).toBeLessThan(partBytes + oneRow);
  });

  it('reads a part of it before it is refused, where the data is shown', async () => {
    const sizes = watchStatements();
    const revealing = principalOf(tenantId, { rules: [ruleOn('/', 'reveal')] });
    await expect(list(revealing)).rejects.toMatchObject({ code: 'validation_failed' });
    expect(Math.max(...sizes)).toBeLessThan(partBytes + oneRow);
  });
});

describe('single reads of large tokens', () => {
  const get = (id: string, principal = masked()) =>
    vault.call<Token>('getToken', principal, { params: { id } });

  /** Counts what is worked on at once: whole rows that Postgres is asked for, and data that is being opened. */
  function watchWork() {
    const most = { reading: 0, opening: 0 };
    const now = { reading: 0, opening: 0 };
    const counted =
      <Args extends unknown[], Result>(
        kind: 'reading' | 'opening',
        work: (...args: Args) => Promise<Result>,
      ) =>
      async (...args: Args) => {
        now[kind] += 1;
        most[kind] = Math.max(most[kind], now[kind]);
        return work(...args).finally(() => (now[kind] -= 1));
      };
    const query = vault.pool.query.bind(vault.pool) as (...args: unknown[]) => Promise<{ rows: object[] }>;
    const reading = counted('reading', query);
    const isOfRows = ([statement]: unknown[]) =>
      /t\.data.*as w \(wanted\)/s.test((statement as { readonly text?: string }).text ?? '');
    const watched = (...args: unknown[]) => (isOfRows(args) ? reading(...args) : query(...args));
    Object.assign(vault.pool, { query: watched });
    const opening = counted('opening', vault.keyRing.open.bind(vault.keyRing));
    vi.spyOn(vault.keyRing, 'open').mockImplementation(opening);
    return most;
  }
  afterEach(() => void vi.restoreAllMocks());

  it('read one row by a statement, and not with the small tokens that are asked for at the same time', async () => {
    const sizes = watchStatements();
    const principal = masked();
    const [small, ...large] = await Promise.all(['small', ...ids].map((id) => get(id, principal)));
    expect(small?.data).toBe('4242');
    expect(large.map(({ data }) => data)).toEqual(ids.map((id) => `xx${id.slice(-2)}`));
    expect(Math.max(...sizes)).toBeLessThan(2 * oneRow);
  });

  it('read and open two rows of an application at a time, also of 100 KB', async () => {
    const some = ['a', 'b', 'c', 'd', 'e', 'f'].map((letter) => `medium-${letter}`);
    for (const token_id of some) await vault.token(tenantId, { token_id, data: 'y'.repeat(100_000) });
    await vault.settle();
    const most = watchWork();
    const revealing = principalOf(tenantId, { rules: [ruleOn('/', 'reveal')] });
    const shown = await Promise.all([...some, ...some].map((id) => get(id, revealing)));
    expect(shown.every(({ data }) => data === 'y'.repeat(100_000))).toBe(true);
    expect(most).toEqual({ reading: 2, opening: 1 });
  });

  it('open data of a tenant one after the other', async () => {
    const most = watchWork();
    await Promise.all(ids.slice(0, 6).map((id) => get(id, masked())));
    expect(most.opening).toBe(1);
  });

  it('are recorded as they are shown', async () => {
    const [id = ''] = ids;
    await get(id);
    const events = await recorded(vault, tenantId, 'TokensRead');
    expect(events.at(-1)).toMatchObject({
      operation: 'read',
      tokens: [{ token_id: id, transform: 'mask' }],
    });
  });

  it('are refused and not found as those of small tokens', async () => {
    const [id = ''] = ids;
    const elsewhere = principalOf(tenantId, { rules: [ruleOn('/elsewhere/', 'reveal')] });
    await expect(get(id, elsewhere)).rejects.toMatchObject({ code: 'forbidden' });
    const deleted = await vault.token(tenantId, {
      data: 'z'.repeat(100_000),
      expires_at: '2020-01-01T00:00:00Z',
    });
    await vault.settle();
    await expect(get(deleted)).rejects.toMatchObject({ code: 'not_found' });
  });
});

describe('the explanation of access to a large token', () => {
  it('reads the row when it is the turn of the application, too', async () => {
    const sizes = watchStatements();
    const application = await vault.application(tenantId);
    await vault.settle();
    const manager = managerOf(tenantId);
    const explain = (token_id: string) =>
      vault.call<{ token: { id: string } }>('explainAccess', manager, {
        params: { id: application },
        query: { token_id },
      });
    const explained = await Promise.all(ids.slice(0, 6).map(explain));
    expect(explained.map(({ token }) => token.id)).toEqual(ids.slice(0, 6));
    expect(Math.max(...sizes)).toBeLessThan(2 * oneRow);
  });
});
