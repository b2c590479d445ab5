import type { Json } from '@token-vault/contracts';
import { secret } from '@token-vault/crypto';
import { describe, expect, it } from 'vitest';
import { mergeData } from '../../src/tokens/patched-fields.ts';

const unopened = () => Promise.reject(new Error('the stored data was opened'));
const stored = () => Promise.resolve(secret<Json>({ a: 1, b: 2 }));

describe('the data of a patch', () => {
  it.each<Json>(['text', '', 5, 0, false, [], [{ a: 1 }]])(
    'that is no object replaces the stored data, which is not opened: %j',
    async (patch) => {
      expect((await mergeData('token', unopened, secret(patch))).expose()).toEqual(patch);
    },
  );

  it('that is an object is merged with the stored data', async () => {
    expect((await mergeData('token', stored, secret<Json>({ a: null, c: 3 }))).expose()).toEqual({
      b: 2,
      c: 3,
    });
  });

  it('that is left out keeps the stored data', async () => {
    expect((await mergeData('token', stored, undefined)).expose()).toEqual({ a: 1, b: 2 });
  });

  it('cannot be removed, whatever is stored', async () => {
    await expect(mergeData('token', unopened, secret(null))).rejects.toThrow('not valid');
  });
});
