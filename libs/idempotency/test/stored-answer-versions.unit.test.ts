import type { StoredToken } from '@token-vault/operations';
import { KeyDestroyedError } from '@token-vault/crypto';
import { expect, it } from 'vitest';
import { requireCurrentVersion, type StoredAnswer } from '../src/sealed-answer.ts';

const token = { id: 'tok', createdAt: '2030-01-01T00:00:00Z' };
const check = (version: number, tokens: readonly StoredToken[]) => () =>
  requireCurrentVersion('request', { version, tokens, endsAt: '2030-01-01T01:00:00Z' } as StoredAnswer);

it('an answer of an older release does not name the application that was shown a token, so it is not shown', () => {
  expect(check(3, [{ ...token, by: 'seen' }])).toThrow(KeyDestroyedError);
  expect(check(4, [{ ...token, by: 'seen' }])).not.toThrow();
  expect(check(3, [{ ...token, by: 'use' }])).not.toThrow();
  expect(check(1, [])).toThrow(KeyDestroyedError);
});
