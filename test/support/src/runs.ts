/** Whether tests run completely, which takes too long for CI: TEST_RUNS=full. */
export const hasFullRuns = process.env['TEST_RUNS'] === 'full';

/** How often a costly property runs: a share of the promised number, or all of it with TEST_RUNS=full. */
export const runsOf = (promised: number, share: number): number =>
  hasFullRuns ? promised : Math.ceil(promised * share);
