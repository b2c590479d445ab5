import { setImmediate as nextTurn } from 'node:timers/promises';

/** Whether the wait is over, well or not, before the event loop does anything else. */
export const isOverAtOnce = (wait: Promise<unknown>): Promise<boolean> =>
  Promise.race([
    wait.then(
      () => true,
      () => true,
    ),
    nextTurn(false),
  ]);
