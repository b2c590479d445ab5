import { it } from 'vitest';
import { timelessStory } from './histories.ts';
import { playAll, testTimeoutMs } from './lanes.ts';

// With the histories of `shown-by-rights-in-time` 10,000: two files, since one thread plays no more in its time.
const promised = 6_000;

it(
  'in 6,000 histories what a caller is told is a function of what it may see',
  // Those at the same time share batches of projections and flushes, which is most of what they cost.
  () => playAll([{ of: timelessStory, lanes: 24, runsOfLane: promised / 24 }], promised),
  testTimeoutMs,
);
