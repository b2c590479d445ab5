import { expect, it } from 'vitest';
import { readLimits } from '../src/index.ts';

it.each([
  ['lenient', true],
  ['strict', undefined],
  ['', undefined],
  [undefined, undefined],
])('VAULT_HANDLING=%s: unknown fields are ignored: %s', (given, isLenient) => {
  expect(readLimits({ VAULT_HANDLING: given }).isLenient).toBe(isLenient);
});

it('VAULT_HANDLING with another value is refused by its name', () => {
  expect(() => readLimits({ VAULT_HANDLING: 'loose' })).toThrow('VAULT_HANDLING must be strict or lenient');
});
