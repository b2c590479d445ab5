import { tokenId, ValidationError } from '@token-vault/contracts';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { parseExpiry } from '../../src/tokens/expiry.ts';

describe('a literal id', () => {
  it.each(['abc', 'a'.repeat(400), 'a.b:c', 'user 1', 'a@b!c', 'ключ', '日本語'])('may be %s', (id) => {
    expect(tokenId.safeParse(id).success).toBe(true);
  });
  it.each([
    'ab',
    'a'.repeat(401),
    ...[...'#/\\+?[]|&=%<>{}^'].map((character) => `a${character}b`),
    'a\u0000b',
    'a\nb',
    ' abc',
    'abc ',
    'ab\ud800',
  ])('may not be %j', (id) => {
    expect(tokenId.safeParse(id).success).toBe(false);
  });
  it.each(['ab', 'a'.repeat(401)])('of a wrong length is told the rule alone: %#', (id) => {
    expect(tokenId.safeParse(id).error?.issues.map(({ message }) => message)).toEqual([
      'must be 3–400 characters without # / \\ + ? [ ] | & = % < > { } ^',
    ]);
  });
});

describe('an expiry that is accepted', () => {
  const two = fc.nat({ max: 99 }).map((n) => String(n).padStart(2, '0'));
  const zone = fc.oneof(
    fc.constantFrom('', 'Z', 'z'),
    fc.tuple(fc.constantFrom('+', '-'), two, two).map(([sign, h, m]) => `${sign}${h}:${m}`),
  );
  const time = fc.tuple(two, two, two).map((parts) => parts.join(':'));
  const text = fc.oneof(
    fc.tuple(two, two, time, zone).map(([month, day, at, offset]) => `2031-${month}-${day}T${at}${offset}`),
    fc
      .tuple(two, two, time, fc.constantFrom('AM', 'PM'), zone)
      .map(([month, day, at, half, offset]) => `${month}/${day}/2031 ${at} ${half} ${offset}`.trim()),
  );
  it('is a moment that events can keep', () => {
    fc.assert(
      fc.property(text, (given) => {
        let parsed: string | undefined;
        try {
          parsed = parseExpiry(given, new Date('2030-01-01T00:00:00Z'));
        } catch (error) {
          expect(error).toBeInstanceOf(ValidationError);
        }
        if (parsed !== undefined)
          expect(z.iso.datetime({ offset: true }).safeParse(parsed).success).toBe(true);
      }),
      { numRuns: 5000 },
    );
  });
  it.each(['2031-01-01T24:00:00Z', '2031-01-01T00:00:00+24:00', '2031-01-01T00:00:00+10:60'])(
    'is never %s',
    (given) => {
      expect(() => parseExpiry(given, new Date('2030-01-01T00:00:00Z'))).toThrow(ValidationError);
    },
  );
});
