import { afterAll, beforeAll, expect, it } from 'vitest';
import type { DetokenizeAnswer, Json } from '@token-vault/contracts';
import { principalOf, recorded, ruleOn, setUpVault, type Vault } from './vault.ts';

let vault: Vault;
let tenantId: string;
let ids: readonly string[];

beforeAll(async () => {
  vault = await setUpVault();
  tenantId = await vault.tenant();
  ids = await Promise.all(
    Array.from({ length: 1_000 }, (_, index) =>
      vault.token(tenantId, { token_id: `many-${index}`, data: `data ${index}` }),
    ),
  );
  await vault.settle();
});
afterAll(() => vault.end());

/** Detokenizes that many tokens. Gives the tokens of each event that records it. */
async function recordsOf(count: number): Promise<string[][]> {
  const before = (await recorded(vault, tenantId, 'TokensRead')).length;
  const body: Json = ids.slice(0, count).map((id) => `{{ ${id} }}`);
  const caller = principalOf(tenantId, { rules: [ruleOn('/', 'reveal')] });
  const answer = await vault.call<DetokenizeAnswer>('detokenize', caller, { body });
  expect(answer).toEqual({
    data: Array.from({ length: count }, (_, index) => `data ${index}`),
    not_opened: [],
  });
  const events = (await recorded(vault, tenantId, 'TokensRead')).slice(before);
  return events.map(({ tokens }) => tokens.map(({ token_id: id }) => id));
}

it('250 tokens in one request are opened, with one event for each hundred', async () => {
  const records = await recordsOf(250);
  expect(records.map((tokens) => tokens.length)).toEqual([100, 100, 50]);
  expect(records.flat()).toEqual(ids.slice(0, 250));
});

it('names the expression that gives no value, since the caller is shown what the others read', async () => {
  const caller = principalOf(tenantId, { rules: [ruleOn('/', 'reveal')] });
  const [first, second] = ids;
  const body: Json = { a: `{{ ${first} | last4 }}`, b: [`{{ ${second} | json: '$.number' }}`] };
  await expect(vault.call('detokenize', caller, { body })).rejects.toMatchObject({
    errors: { 'body.b[0]': ['An expression gives no value.'] },
  });
});

it('1,000 tokens in one request are opened, with ten events', async () => {
  const records = await recordsOf(1_000);
  expect(records.map((tokens) => tokens.length)).toEqual(Array.from({ length: 10 }, () => 100));
  expect(records.flat()).toEqual(ids);
});
