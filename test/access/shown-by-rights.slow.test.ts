import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { direct } from './entrances.ts';
import { history, rights } from './histories.ts';
import { toldByTwins } from './property.ts';
import { openTwins, type Twins } from './twins.ts';

let twins: Twins;
beforeAll(async () => {
  twins = await openTwins();
});
afterAll(() => twins.close());

it('in 10,000 histories what a caller is told is a function of what it may see', async () => {
  await fc.assert(
    fc.asyncProperty(history, rights, async (steps, of) => {
      const [one, other] = await toldByTwins(twins, { steps, rights: of, entrance: direct });
      expect(other).toEqual(one);
    }),
    // A history takes about 25 ms; a busy machine makes fewer of them in its time.
    { numRuns: 10_000, interruptAfterTimeLimit: 540_000 },
  );
});
