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

const promised = 10_000;
// The property stops before the test would be cut off, and then says how far it came.
const limitMs = 1_000_000;

// A minute more than the property takes at most.
const testTimeoutMs = limitMs + 60_000;

it(
  'in 10,000 histories what a caller is told is a function of what it may see',
  async () => {
    let reached = 0;
    await fc.assert(
      fc.asyncProperty(history, rights, async (steps, of) => {
        const [one, other] = await toldByTwins(twins, { steps, rights: of, entrance: direct });
        expect(other).toEqual(one);
        reached += 1;
      }),
      { numRuns: promised, interruptAfterTimeLimit: limitMs },
    );
    expect(reached).toBeGreaterThanOrEqual(promised);
  },
  testTimeoutMs,
);
