import { defineConfig } from 'vitest/config';
import LongestFirst from './scripts/longest-first.ts';

// The suffix of a test says what it costs: `unit` needs nothing, `int` a real Postgres, `e2e` real processes.
// `slow` suites (chaos, properties with many runs) are left to CI: `npm run test:all`.
export default defineConfig({
  test: {
    // A distributed stack has nine processes a vault (test/distributed/main.ts). Limits on the command line do not reach projects.
    testTimeout: process.env['VAULT_TEST_STACK'] ? 120_000 : 30_000,
    hookTimeout: process.env['VAULT_TEST_STACK'] ? 180_000 : 60_000,
    pool: 'forks',
    // Many tests wait for processes, expiries and time limits, so two cores are shared by three.
    maxWorkers: 3,
    sequence: { sequencer: LongestFirst },
    // One test of thousands that waits too briefly on a busy machine must not hold up a release, nor go unnamed.
    retry: process.env['CI'] ? 1 : 0,
    reporters: ['default', './test/support/src/run-summary.ts'],
    globalSetup: ['./test/support/src/global-setup.ts'],
    projects: [
      {
        extends: true,
        test: {
          name: 'default',
          include: ['**/*.{unit,int,e2e}.test.ts'],
          exclude: ['**/node_modules/**'],
          // Files that run in one process share its modules: loading them for each file took a third of the time of `npm test`.
          isolate: false,
        },
      },
      {
        extends: true,
        test: {
          name: 'slow',
          include: ['**/*.slow.test.ts'],
          exclude: ['**/node_modules/**'],
          testTimeout: 600_000,
          // The files wait for more than half of their time: 116 of them take about 1,750 s of the processors, of 3,140 s that three at once had.
          maxWorkers: 4,
          // Projects with different numbers of workers run one after the other.
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
