import type { Token } from '@token-vault/contracts';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { principalOf, recorded, ruleOn, setUpVault, type Vault } from './vault.ts';

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
