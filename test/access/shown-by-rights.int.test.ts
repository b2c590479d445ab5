import { runsOf } from '@token-vault/test-support';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Role } from './cast.ts';
import { evaluateDefaultMask } from './default-mask.ts';
import { entrances } from './entrances.ts';
import { story, type Story } from './histories.ts';
import { tellsTheSame, toldByTwins } from './property.ts';
import { everything } from './rights.ts';
import { openTwins, type Twins } from './twins.ts';

let twins: Twins;
beforeAll(async () => {
  twins = await openTwins();
  await evaluateDefaultMask(twins);
});
afterAll(() => twins.close());

const named = entrances.map((entrance) => [entrance.name, entrance] as const);

describe('for any rights and any history, answers to a caller depend only on data that it may see', () => {
  it.each(named)(
    'by %s',
    async (_name, entrance) => {
      await fc.assert(tellsTheSame(twins, story, entrance), { numRuns: runsOf(40, 0.4) });
    },
    240_000,
  );
});

describe('this oracle', () => {
  const create = {
    operation: 'createToken',
    body: { id: 'tok', type: 'card', data: { number: '$number' } },
  } as const;
  const read = { operation: 'getToken', params: { id: 'tok' } } as const;
  const storyOf = (role: Role): Story => ({
    role,
    steps: [
      { by: 'author', ask: create },
      { by: 'caller', key: 0, ask: read },
    ],
  });

  it.each(named)(
    'distinguishes the twins for a caller that sees the difference, and not for another caller: %s',
    async (_name, entrance) => {
      const seeing: Role = { type: 'private', ...everything };
      const [one, other] = await toldByTwins(twins, storyOf(seeing), entrance);
      expect(other).not.toEqual(one);
      const masked: Role = { type: 'private', permissions: ['token:read'], rules: [] };
      const [alike, too] = await toldByTwins(twins, storyOf(masked), entrance);
      expect(too).toEqual(alike);
      expect(JSON.stringify(alike)).toContain('XXXXXXXXXXXX4242');
    },
  );
});
