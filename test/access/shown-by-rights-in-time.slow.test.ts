import { it } from 'vitest';
import { timedStory, timelessStory } from './histories.ts';
import { histories, playAll, testTimeoutMs } from './lanes.ts';

// A story that moves the clock needs its own vault meanwhile.
const timed = { of: timedStory, lanes: 1, runsOfLane: Math.ceil(0.05 * histories) };
const timeless = { of: timelessStory, lanes: 24, runsOfLane: Math.ceil((0.3 * histories) / 24) };
const promised = 2 * timed.runsOfLane + timeless.lanes * timeless.runsOfLane;

it(
  `in ${promised} histories, some over hours, the answers to a caller are a function of the data that it may see`,
  () => playAll([timed, timed, timeless], promised),
  testTimeoutMs,
);
