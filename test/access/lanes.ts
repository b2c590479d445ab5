import { runsOf } from '@token-vault/test-support';
import fc from 'fast-check';
import { expect } from 'vitest';
import { evaluateDefaultMask } from './default-mask.ts';
import { entrances, type Entrance } from './entrances.ts';
import type { Story } from './histories.ts';
import { tellsTheSame } from './property.ts';
import { openTwins } from './twins.ts';

const [direct, ...others] = entrances as readonly [Entrance, ...Entrance[]];

/** Where there are many lanes, the last ones take one other entrance each. These cost up to twice as much. */
const entranceOf = (lane: number, lanes: number): Entrance =>
  (lanes > 2 * others.length ? others[lanes - 1 - lane] : undefined) ?? direct;

/** A vault, and the stories that run in it side by side. */
interface Lanes {
  readonly of: fc.Arbitrary<Story>;
  readonly lanes: number;
  readonly runsOfLane: number;
}

/** The number of stories in the two slow files together: all 10,000 with TEST_RUNS=full. */
export const histories = runsOf(10_000, 0.12);

// The property stops before the test would time out, and then reports its progress.
const limitMs = 1_000_000;
/** A minute longer than the property takes at most. */
export const testTimeoutMs = limitMs + 60_000;

/** Printed, so that a run can be repeated: ACCESS_SEED=<seed>. */
const seed = Number(process.env['ACCESS_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

async function playIn({ of, lanes, runsOfLane }: Lanes, vault: number): Promise<number> {
  let passed = 0;
  const twins = await openTwins();
  try {
    await evaluateDefaultMask(twins);
    const run = (lane: number) =>
      fc.assert(
        tellsTheSame(twins, of, entranceOf(lane, lanes), () => (passed += 1)),
        {
          seed: seed + 100 * vault + lane,
          numRuns: runsOfLane,
          interruptAfterTimeLimit: limitMs,
        },
      );
    await Promise.all(Array.from({ length: lanes }, (_, lane) => run(lane)));
  } finally {
    await twins.close();
  }
  return passed;
}

/** Fails when the twins of a story differ, and when fewer stories than promised ran in time. */
export async function playAll(vaults: readonly Lanes[], promised: number): Promise<void> {
  console.info(`ACCESS_SEED=${seed}`);
  const passed = await Promise.all(vaults.map(playIn));
  expect(passed.reduce((sum, each) => sum + each, 0)).toBeGreaterThanOrEqual(promised);
}
