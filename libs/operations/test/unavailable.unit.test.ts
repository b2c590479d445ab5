import { describe, expect, it } from 'vitest';
import { isUnavailable } from '../src/index.ts';

const errorOf = (code: string): Error => Object.assign(new Error('an error of Postgres'), { code });

describe('an error of Postgres', () => {
  it.each([
    ['a read model that lacks a column of this release', '42703'],
    ['a read model that this release has not built yet', '42P01'],
    ['the schema of such a read model', '3F000'],
    ['a statement that took too long', '57014'],
    ['a lost connection', '08006'],
  ])('means that the vault cannot answer now: %s', (_what, code) => {
    expect(isUnavailable(errorOf(code))).toBe(true);
  });

  it.each(['23505', '42601', '42501'])('is a fault of the vault otherwise: %s', (code) => {
    expect(isUnavailable(errorOf(code))).toBe(false);
  });
});
