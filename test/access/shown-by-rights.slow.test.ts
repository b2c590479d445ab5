import { it } from 'vitest';
import { timelessStory } from './histories.ts';
import { histories, playAll, testTimeoutMs } from './lanes.ts';

// `shown-by-rights-in-time` plays the others. Two files, because one thread plays no more in the time of a test.
const lanes = 24;
const runsOfLane = Math.ceil((0.6 * histories) / lanes);

it(
  `in ${lanes * runsOfLane} histories the answers to a caller are a function of the data that it may see`,
  // Concurrent stories share batches of projections and flushes, which are most of their cost.
  () => playAll([{ of: timelessStory, lanes, runsOfLane }], lanes * runsOfLane),
  testTimeoutMs,
);
