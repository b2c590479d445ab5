import { appendFileSync } from 'node:fs';
import type { Reporter, TestModule } from 'vitest/node';

/**
 * Adds two parts to vitest's own summary: the tests that passed only at the second attempt, so that they are not
 * taken for reliable; and, for a script that calls several suites, the results line by line in the file TEST_RESULTS.
 */
export default class RunSummary implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const flaky = tests.filter((test) => test.diagnostic()?.flaky === true);
    if (flaky.length > 0) {
      const heading =
        'Passed at the second attempt only: a defect of the test, or of the vault, to be found:';
      const lines = flaky.flatMap((test) => [
        `  ${test.module.moduleId}: ${test.fullName}`,
        // The error of the first attempt is printed here only.
        ...(test.result().errors ?? []).map((error) => `    ${withCauses(error)}\n${error.diff ?? ''}`),
      ]);
      process.stdout.write(`\n${[heading, ...lines].join('\n')}\n`);
    }
    const file = process.env['TEST_RESULTS'];
    if (file) appendFileSync(file, tests.map((test) => `${test.result().state}\n`).join(''));
  }
}

/** The message of an error, and those of the errors that led to it. */
function withCauses({ message, cause }: { readonly message: string; readonly cause?: unknown }): string {
  const isError = typeof cause === 'object' && cause !== null && 'message' in cause;
  return isError ? `${message}: ${withCauses(cause as { message: string })}` : message;
}
