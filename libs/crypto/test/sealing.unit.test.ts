import type { JsonInput } from '@token-vault/contracts';
import { describe, expect, it } from 'vitest';
import { DataKey, secret, SealBrokenError } from '../src/index.ts';
import { createSealing } from '../src/key-ring/sealing.ts';

const context = { tenantId: '11111111-1111-4111-8111-111111111111', entity: 'token:abc', field: 'data' };

/** A ring that gives one key, which the test can look at afterwards. */
function ringWithOneKey() {
  const { field: purpose, ...owner } = context;
  const id = '0190a000-0000-7000-8000-000000000001';
  const bytes = Buffer.alloc(32, 7);
  const key = new DataKey({ id, purpose, ...owner }, bytes);
  const stored = Promise.resolve();
  const sealing = createSealing({
    createDataKey: async () => ({ key, stored }),
    openKey: async () => key,
  });
  const isWiped = () => bytes.every((byte) => byte === 0);
  return { sealing, isWiped, id };
}

/** JSON cannot express it, so the seal fails. */
const loop: Record<string, JsonInput> = {};
loop.self = loop;
const unsealable = secret<JsonInput>(loop);

describe('a data key is wiped', () => {
  it('when the value is sealed', async () => {
    const { sealing, isWiped } = ringWithOneKey();
    await sealing.sealNew(context, secret('a value'));
    expect(isWiped()).toBe(true);
  });

  it.each(['sealNew', 'sealAgain', 'prepareSeal'] as const)('when the seal of %s fails', async (call) => {
    const { sealing, isWiped, id } = ringWithOneKey();
    const before = `sv1.${id}.${'A'.repeat(40)}`;
    const calls = {
      sealNew: () => sealing.sealNew(context, unsealable),
      sealAgain: () => sealing.sealAgain(context, before, unsealable),
      prepareSeal: () => sealing.prepareSeal(context).seal(unsealable),
    };
    await expect(calls[call]()).rejects.toBeInstanceOf(TypeError);
    expect(isWiped()).toBe(true);
  });

  it('when the value does not open', async () => {
    const { sealing, isWiped, id } = ringWithOneKey();
    const altered = `sv1.${id}.${'A'.repeat(40)}`;
    await expect(sealing.open(context, altered)).rejects.toBeInstanceOf(SealBrokenError);
    expect(isWiped()).toBe(true);
  });

  it('when it was prepared and no value follows', async () => {
    const { sealing, isWiped } = ringWithOneKey();
    sealing.prepareSeal(context).discard();
    await expect.poll(isWiped).toBe(true);
  });
});
