import { appendFileSync } from 'node:fs';
import type { Reporter, TestCase, TestModule } from 'vitest/node';

/**
 * Adds three parts to vitest's own summary: the tests that passed only at the second attempt, so that they are not
 * taken for reliable; why tests were skipped; and, for a script that calls several suites, the results line by line in the file TEST_RESULTS.
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
    const reasons = Object.entries(Object.groupBy(tests, (test) => reasonOf(test) ?? ''));
    const skipped = reasons.filter(([reason]) => reason !== '');
    if (skipped.length > 0) {
      const lines = skipped.map(
        ([reason, alike = []]) => `  ${alike.length} of ${filesOf(alike)}: ${reason}`,
      );
      process.stdout.write(`\n${['Skipped with a reason:', ...lines].join('\n')}\n`);
    }
    const file = process.env['TEST_RESULTS'];
    if (file) appendFileSync(file, tests.map((test) => `${test.result().state}\n`).join(''));
  }
}

/** Why a test was skipped, by the test itself or by a name: `… (skipped: no nginx)`. */
function reasonOf(test: TestCase): string | undefined {
  const result = test.result();
  if (result.state !== 'skipped') return undefined;
  return result.note ?? /\((?:skipped|not run):? (.*?)\)(?= > |$)/.exec(test.fullName)?.[1];
}

const filesOf = (tests: readonly TestCase[]): string =>
  [...new Set(tests.map(({ module }) => module.relativeModuleId))].join(', ');

/** The message of an error, and those of the errors that led to it. */
function withCauses({ message, cause }: { readonly message: string; readonly cause?: unknown }): string {
  const isError = typeof cause === 'object' && cause !== null && 'message' in cause;
  return isError ? `${message}: ${withCauses(cause as { message: string })}` : message;
}
