import { beforeEach, describe, expect, it } from 'vitest';
import { anyone, card, useVault, type TestVault } from './vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));

const otherCard = '5555555555554444';

describe('an update that makes a token the equal of another', () => {
  const first = {
    type: 'card',
    data: { number: card },
    fingerprint_expression: '{{ data.number }}',
    id: 'one',
  };
  const second = { ...first, data: { number: otherCard }, id: 'two', metadata: { a: 'b' } };
  beforeEach(async () => {
    await vault.create(first);
    await vault.create(second);
  });

  it('answers with the other and changes nothing, when deduplicated', async () => {
    const answer = await vault.update('two', { data: { number: card }, deduplicate_token: true });
    expect(answer).toMatchObject({ id: 'one', data: { number: card } });
    expect((await vault.stored('two'))?.data).toEqual({ number: otherCard });
  });

  it('redacts the other token’s fields for a caller who may not read it', async () => {
    const rules = anyone().rules.map((rule) => ({ ...rule, permissions: ['token:update' as const] }));
    const answer = await vault.update(
      'two',
      { data: { number: card }, deduplicate_token: true },
      { as: { ...vault.principal, rules } },
    );
    expect(answer).toMatchObject({ id: 'one', type: 'card', containers: ['/pci/high/'], created_by: 'app' });
    for (const field of ['data', 'metadata', 'fingerprint_expression', 'search_indexes', 'mask'])
      expect(answer[field as 'data']).toBeUndefined();
  });

  it('is done when deduplication is off', async () => {
    expect((await vault.update('two', { data: { number: card } })).id).toBe('two');
    expect(await vault.live()).toEqual(['one', 'two']);
  });

  it('is answered with the other token when deduplication is requested later, and not at every further change', async () => {
    await vault.update('two', { data: { number: card } });
    expect((await vault.update('two', { deduplicate_token: true })).id).toBe('one');
    expect((await vault.update('two', { metadata: { a: 'c' } })).id).toBe('two');
  });

  it('releases its earlier fingerprint', async () => {
    await vault.update('two', { data: { number: '378282246310005' } });
    const answer = await vault.call('createToken', {
      body: { ...first, data: { number: otherCard }, id: 'three', deduplicate_token: true },
    });
    expect(answer.status).toBe(201);
  });

  it('succeeds for one of many at once', async () => {
    const patch = { data: { number: '378282246310005' }, deduplicate_token: true };
    const ids = (await Promise.all([vault.update('one', patch), vault.update('two', patch)])).map(
      ({ id }) => id,
    );
    expect(new Set(ids).size).toBe(1);
  });
});
