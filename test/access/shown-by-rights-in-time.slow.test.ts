import { it } from 'vitest';
import { timedStory, timelessStory } from './histories.ts';
import { playAll, testTimeoutMs } from './lanes.ts';

const promised = 4_000;

it(
  'in 4,000 histories, some over hours, what a caller is told is a function of what it may see',
  async () => {
    // A story that moves the clock needs its own vault meanwhile.
    const timed = { of: timedStory, lanes: 1, runsOfLane: 500 };
    const timeless = { of: timelessStory, lanes: 24, runsOfLane: 125 };
    await playAll([timed, timed, timeless], promised);
  },
  testTimeoutMs,
);
