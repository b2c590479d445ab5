import { it } from 'vitest';
import { timelessStory } from './histories.ts';
import { playAll, testTimeoutMs } from './lanes.ts';

// Together with `shown-by-rights-in-time` 10,000 stories. Two files, because one thread plays no more in the time of
// a test.
const promised = 6_000;

it(
  'in 6,000 histories what a caller is told is a function of what it may see',
  // Concurrent stories share batches of projections and flushes, which are most of their cost.
  () => playAll([{ of: timelessStory, lanes: 24, runsOfLane: promised / 24 }], promised),
  testTimeoutMs,
);
