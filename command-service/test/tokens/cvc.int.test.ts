import { beforeEach, describe, expect, it } from 'vitest';
import { card, refusal, useVault, type TestVault } from './vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));

const hour = 60 * 60 * 1000;

describe('the cvc of a card', () => {
  const data = { number: card, cvc: '123' };
  beforeEach(() => vault.create({ type: 'card', data, id: 'tok' }));
  const shown = async () => (await vault.stored('tok'))?.data;

  it('stays after an update that does not contain it, until the end of its hour', async () => {
    await vault.update('tok', { data: { expiration_month: 1 } });
    await vault.update('tok', { metadata: { a: 'b' } });
    expect(await shown()).toEqual({ ...data, expiration_month: 1 });
    vault.clock.advance(hour - 1);
    expect(await shown()).toHaveProperty('cvc');
    vault.clock.advance(1);
    expect(await shown()).toEqual({ number: card, expiration_month: 1 });
    expect((await vault.update('tok', { metadata: { a: 'c' } })).data).not.toHaveProperty('cvc');
  });

  it('that is replaced has a new hour, and the old key is destroyed', async () => {
    vault.clock.advance(hour - 1);
    await vault.update('tok', { data: { cvc: '456' } });
    expect(await vault.keys()).toEqual(['tok cvc', 'tok data']);
    vault.clock.advance(hour - 1);
    expect(await shown()).toEqual({ number: card, cvc: '456' });
    vault.clock.advance(1);
    expect(await shown()).toEqual({ number: card });
  });

  it('that is removed is erased at once', async () => {
    expect((await vault.update('tok', { data: { cvc: null } })).data).toEqual({ number: card });
    expect(await vault.keys()).toEqual(['tok data']);
  });

  it('leaves no key when the update that brings it is refused by the log', async () => {
    let others = 0;
    vault.faults.interpose = async (stream) => {
      if (!stream.startsWith('token-') || others >= 5) return;
      others += 1;
      const { interpose } = vault.faults;
      vault.faults.interpose = async () => undefined;
      if (others < 5) await vault.update('tok', { metadata: { n: String(others) } });
      else await vault.remove('tok');
      vault.faults.interpose = interpose;
    };
    await expect(vault.update('tok', { data: { cvc: '456' } })).rejects.toMatchObject(refusal('not_found'));
    expect([others, await vault.keys()]).toEqual([5, []]);
  });

  it('may be needed by the mask of the answer', async () => {
    await vault.update('tok', { mask: { cvc: '{{ data.cvc | reveal_last: 1 }}' } });
    vault.clock.advance(hour);
    const as = { ...vault.principal, rules: [], permissions: ['token:update'] as const };
    await expect(vault.update('tok', { metadata: {} }, { as })).resolves.toMatchObject({ id: 'tok' });
  });
});
