import { streams } from '@token-vault/contracts';
import { fieldsOf } from '@token-vault/test-support';
import { describe, expect, it } from 'vitest';
import { anyone, card, refusal, useVault, type TestVault } from './vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));

const create = (body: object = {}) =>
  vault.create({ type: 'token', data: { a: 1, b: { c: 2 } }, id: 'tok', ...body });

describe('a deletion', () => {
  it('destroys every key before it answers, and the log records it', async () => {
    await vault.create({ type: 'card', data: { number: card, cvc: '123' }, id: 'tok' });
    await vault.remove('tok');
    expect(await vault.keys()).toEqual([]);
    const events = await vault.events(streams.token(vault.principal.tenant.id, 'tok'));
    expect(events.map(({ type }) => type)).toEqual(['TokenCreated', 'TokenDeleted']);
    expect(fieldsOf(events[1]).key_ids).toHaveLength(2);
  });

  it('finds no token twice, nor an expired one', async () => {
    await expect(vault.remove('tok')).rejects.toMatchObject(refusal('not_found'));
    await create({ expires_at: '2030-01-01T00:00:01Z' });
    vault.clock.advance(1000);
    await expect(vault.remove('tok')).rejects.toMatchObject(refusal('not_found'));
  });

  it('needs its permission in the container', async () => {
    await create();
    const rules = anyone().rules.map((rule) => ({ ...rule, container: '/pci/' }));
    await expect(vault.remove('tok', { as: { ...vault.principal, rules } })).rejects.toMatchObject(
      refusal('forbidden'),
    );
    expect(await vault.live()).toEqual(['tok']);
  });

  it('destroys no key when its outcome is unknown', async () => {
    await create();
    vault.faults.decide = () => 'before';
    await expect(vault.remove('tok')).rejects.toThrow('cut off');
    vault.faults.decide = () => undefined;
    expect((await vault.stored('tok'))?.data).toEqual({ a: 1, b: { c: 2 } });
  });
});
