import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { entrances } from './entrances.ts';
import { authorRights, history, rights } from './histories.ts';
import { toldByTwins } from './property.ts';
import { openTwins, type Twins } from './twins.ts';

let twins: Twins;
beforeAll(async () => {
  twins = await openTwins();
});
afterAll(() => twins.close());

describe('for any rights and any history, what a caller is told is a function of what it may see', () => {
  it.each(entrances.map((entrance) => [entrance.name, entrance] as const))(
    'by %s',
    async (_name, entrance) => {
      await fc.assert(
        fc.asyncProperty(history, rights, async (steps, of) => {
          const [one, other] = await toldByTwins(twins, { steps, rights: of, entrance });
          expect(other).toEqual(one);
        }),
        { numRuns: 100 },
      );
    },
    120_000,
  );
});

describe('this oracle', () => {
  const create = {
    operation: 'createToken',
    body: { id: 'tok', type: 'card', data: { number: '$number' } },
  } as const;
  const read = { operation: 'getToken', params: { id: 'tok' } } as const;
  const steps = [
    { by: 'author', ask: create },
    { by: 'caller', ask: read },
  ] as const;

  it.each(entrances.map((entrance) => [entrance.name, entrance] as const))(
    'tells the twins apart by what one caller sees, and not by what another does not: %s',
    async (_name, entrance) => {
      const [one, other] = await toldByTwins(twins, { steps, rights: authorRights, entrance });
      expect(other).not.toEqual(one);
      const masked = { permissions: ['token:read'], rules: [] } as const;
      const [alike, too] = await toldByTwins(twins, { steps, rights: masked, entrance });
      expect(too).toEqual(alike);
      expect(JSON.stringify(alike)).toContain('XXXXXXXXXXXX4242');
    },
  );
});
