import type { Reporter, TestModule } from 'vitest/node';

/** Names the tests that passed at the second attempt only, so that nobody mistakes them for sound. */
export default class SecondAttempts implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const names = modules.flatMap((module) =>
      [...module.children.allTests('passed')]
        .filter((test) => test.diagnostic()?.flaky === true)
        .map((test) => `  ${module.moduleId}: ${test.fullName}`),
    );
    if (names.length === 0) return;
    const heading = 'Passed at the second attempt only: a defect of the test, or of the vault, to be found:';
    process.stdout.write(`\n${[heading, ...names].join('\n')}\n`);
  }
}
