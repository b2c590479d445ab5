import fc from 'fast-check';
import { expect, it } from 'vitest';
import { direct } from './entrances.ts';
import { story } from './histories.ts';
import { tellsTheSame } from './property.ts';
import { openTwins } from './twins.ts';

const promised = 10_000;
/** Vaults side by side: each has a clock of its own, and a history mostly waits for read models. */
const vaults = 3;
// The property stops before the test would be cut off, and then says how far it came.
const limitMs = 1_000_000;
// A minute more than the property takes at most.
const testTimeoutMs = limitMs + 60_000;

/** Printed, so that a run can be repeated: ACCESS_SEED=<seed>. */
const seed = Number(process.env['ACCESS_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

async function playIn(vault: number): Promise<number> {
  let passed = 0;
  const twins = await openTwins();
  try {
    const property = tellsTheSame(twins, story, direct, () => (passed += 1));
    const numRuns = Math.ceil(promised / vaults);
    await fc.assert(property, { seed: seed + vault, numRuns, interruptAfterTimeLimit: limitMs });
  } finally {
    await twins.close();
  }
  return passed;
}

it(
  'in 10,000 histories what a caller is told is a function of what it may see',
  async () => {
    console.info(`ACCESS_SEED=${seed}`);
    const passed = await Promise.all(Array.from({ length: vaults }, (_, vault) => playIn(vault)));
    expect(passed.reduce((sum, each) => sum + each, 0)).toBeGreaterThanOrEqual(promised);
  },
  testTimeoutMs,
);
