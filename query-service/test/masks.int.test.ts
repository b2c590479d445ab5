import { createExpressions, createExpressionWorkers } from '@token-vault/expressions';
import type { JsonObject, Token } from '@token-vault/contracts';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { principalOf, ruleOn, setUpVault, type Vault } from './vault.ts';

const workers = createExpressionWorkers({ waitMs: 120_000 });
let vault: Vault;

beforeAll(async () => {
  vault = await setUpVault({ expressions: createExpressions(workers) });
});
afterAll(async () => {
  await vault.end();
  await workers.close();
});

/**
 * A stored mask of a release that bounded neither filters nor time. Each evaluation takes all the time that a mask
 * may have.
 */
const slow = '{% for i in (1..3000) %}{% for j in (1..3000) %}{{ i }}{% endfor %}{% endfor %}';
const manyFilters = `{{ data${' | reveal_last: 4'.repeat(330)} }}`;
const long = 'x'.repeat(500_000);
const get = (id: string, tenantId: string, transform: 'mask' | 'reveal' = 'mask') =>
  vault.call<Token>('getToken', principalOf(tenantId, { rules: [ruleOn('/', transform)] }), {
    params: { id },
  });

describe('a stored mask that takes too much', () => {
  it.each([
    ['time', slow, 'abc'],
    ['filters', manyFilters, long],
  ])('of %s shows nothing, and the plaintext to a caller that may see it', async (_, mask, data) => {
    const tenantId = await vault.tenant();
    const id = await vault.token(tenantId, { data, mask });
    await vault.settle();
    const masked = await get(id, tenantId);
    expect(masked).toMatchObject({ id, mask });
    expect(masked).not.toHaveProperty('data');
    expect(await get(id, tenantId, 'reveal')).toMatchObject({ data });
  });

  it('does not make the page fail, and a page of them shares one budget', async () => {
    const tenantId = await vault.tenant();
    for (let count = 0; count < 5; count += 1) await vault.token(tenantId, { data: 'abc', mask: slow });
    const plain = await vault.token(tenantId, { data: 'abcdef', mask: '{{ data | reveal_last: 2 }}' });
    await vault.settle();
    const page = await vault.call<{ data: JsonObject[] }>('listTokens', principalOf(tenantId), {
      query: { size: '10' },
    });
    expect(page.data).toHaveLength(6);
    expect(page.data.filter((token) => 'data' in token)).toMatchObject([{ id: plain, data: 'XXXXef' }]);
  });

  it('does not delay another tenant, whose answers come before the attacker’s', async () => {
    const [attacker, neighbour] = [await vault.tenant(), await vault.tenant()];
    const bad = await vault.token(attacker, { data: 'abc', mask: slow });
    const simple = await vault.token(neighbour, { data: 'abcdef', mask: '{{ data | reveal_last: 2 }}' });
    const template = await vault.token(neighbour, { data: 'abcdef', mask: "{{ data | split: '' | last }}" });
    await vault.settle();
    const order: string[] = [];
    const attack = Array.from({ length: 4 }, () => get(bad, attacker).then(() => order.push('attacker')));
    const answers = await Promise.all([
      get(simple, neighbour).then((token) => (order.push('neighbour'), token.data)),
      get(template, neighbour).then((token) => (order.push('neighbour'), token.data)),
    ]);
    expect(answers).toEqual(['XXXXef', 'f']);
    await Promise.all(attack);
    expect(order.filter((who) => who === 'attacker')).toHaveLength(4);
    // One mask of the attacker may run meanwhile. Its other masks wait for each other, and the neighbour does not
    // wait for them.
    expect(order.slice(0, 3).filter((who) => who === 'neighbour')).toHaveLength(2);
  });
});
