import fc from 'fast-check';
import { expect, it } from 'vitest';
import { direct } from './entrances.ts';
import { timedStory, timelessStory } from './histories.ts';
import { tellsTheSame } from './property.ts';
import { openTwins } from './twins.ts';

const promised = 10_000;
/**
 * Histories at the same time share batches of projections and flushes, which is most of what they cost. Those that move the clock need a
 * vault of their own meanwhile.
 */
const vaults = [
  { of: timelessStory, lanes: 24, runsOfLane: 360 },
  { of: timedStory, lanes: 1, runsOfLane: 700 },
  { of: timedStory, lanes: 1, runsOfLane: 700 },
];
// The property stops before the test would be cut off, and then says how far it came.
const limitMs = 1_000_000;
// A minute more than the property takes at most.
const testTimeoutMs = limitMs + 60_000;

/** Printed, so that a run can be repeated: ACCESS_SEED=<seed>. */
const seed = Number(process.env['ACCESS_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

async function playIn({ of, lanes, runsOfLane }: (typeof vaults)[number], vault: number): Promise<number> {
  let passed = 0;
  const twins = await openTwins();
  try {
    const property = tellsTheSame(twins, of, direct, () => (passed += 1));
    const run = (lane: number) =>
      fc.assert(property, {
        seed: seed + 100 * vault + lane,
        numRuns: runsOfLane,
        interruptAfterTimeLimit: limitMs,
      });
    await Promise.all(Array.from({ length: lanes }, (_, lane) => run(lane)));
  } finally {
    await twins.close();
  }
  return passed;
}

it(
  'in 10,000 histories what a caller is told is a function of what it may see',
  async () => {
    console.info(`ACCESS_SEED=${seed}`);
    const passed = await Promise.all(vaults.map(playIn));
    expect(passed.reduce((sum, each) => sum + each, 0)).toBeGreaterThanOrEqual(promised);
  },
  testTimeoutMs,
);
