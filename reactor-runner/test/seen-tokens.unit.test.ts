import { maxSeenTokens, type TokenShowing } from '@token-vault/contracts';
import { expect, it } from 'vitest';
import { SeenTokens } from '../src/runs/seen-tokens.ts';

const shown = (changes: Partial<TokenShowing> = {}): TokenShowing => ({
  applicationId: 'app',
  permission: 'token:read',
  transform: 'mask',
  ...changes,
});

it('a token that was shown several times by one right counts with its most revealing transform', () => {
  const seen = new SeenTokens();
  for (const transform of ['redact', 'reveal', 'mask'] as const)
    seen.add([{ id: 'tok', shown: shown({ transform }) }]);
  expect(seen.tokens).toEqual([{ id: 'tok', shown: shown({ transform: 'reveal' }) }]);
});

it('each application and each right by which a token was shown is kept', () => {
  const seen = new SeenTokens();
  const ways = [
    shown(),
    shown({ applicationId: 'inner' }),
    shown({ permission: 'token:search' }),
    shown({ permission: 'token:search', isTold: true }),
  ];
  seen.add([{ id: 'tok' }, ...ways.map((way) => ({ id: 'tok', shown: way }))]);
  expect(seen.tokens).toEqual([{ id: 'tok' }, ...ways.map((way) => ({ id: 'tok', shown: way }))]);
});

it('names made tokens up to the limit, reports when there were more, and includes the end of every cvc', () => {
  const seen = new SeenTokens();
  const first = Array.from({ length: maxSeenTokens }, (_, index) => ({ id: `tok_${index}` }));
  seen.add([...first, ...first]);
  expect([seen.tokens.length, seen.isComplete]).toEqual([maxSeenTokens, true]);
  seen.add([{ id: 'tok_0', shown: shown() }]);
  expect([seen.tokens.length, seen.isComplete]).toEqual([maxSeenTokens + 1, true]);
  seen.add([{ id: 'another', cvcEndsAt: '2030-01-01T00:00:00Z' }]);
  expect([seen.tokens.length, seen.isComplete]).toEqual([maxSeenTokens + 1, false]);
  expect(seen.cvcEndsAt).toEqual(new Date('2030-01-01T00:00:00Z'));
});

it('refuses an answer that shows more tokens than can be named, names its tokens too, and refuses any further answer', () => {
  const seen = new SeenTokens();
  const first = Array.from({ length: maxSeenTokens }, (_, index) => ({ id: `tok_${index}`, shown: shown() }));
  seen.add(first);
  seen.add([{ id: 'made', shown: shown({ permission: 'token:create' }) }]);
  seen.add(first);
  const refused = 'at most 1,000 tokens';
  expect(() => void seen.add([{ id: 'another', shown: shown() }])).toThrow(refused);
  expect(seen.tokens.at(-1)).toEqual({ id: 'another', shown: shown() });
  for (const later of [[], first]) expect(() => void seen.add(later)).toThrow(refused);
  expect(seen.tokens.length).toBe(maxSeenTokens + 1);
});

it('is incomplete when the list of an inner run is', () => {
  const seen = new SeenTokens();
  seen.add([{ id: 'tok' }], false);
  expect([seen.tokens.length, seen.isComplete]).toEqual([1, false]);
});
