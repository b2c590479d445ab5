import { expect, it, onTestFinished, vi } from 'vitest';
import type { TestModule } from 'vitest/node';
import RunSummary from '../src/run-summary.ts';

const testNamed = (fullName: string, result: object) => ({
  fullName,
  module: { relativeModuleId: 'a.test.ts' },
  diagnostic: () => undefined,
  result: () => result,
});

it('the summary of a run says why tests were skipped', () => {
  vi.stubEnv('TEST_RESULTS', '');
  const write = vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  onTestFinished(() => {
    write.mockRestore();
    vi.unstubAllEnvs();
  });
  const tests = [
    testNamed('nginx (skipped where none (of 1.22) is installed) > answers (at once)', { state: 'skipped' }),
    testNamed('a vault > (skipped: two minutes)', { state: 'skipped' }),
    testNamed('a store > keeps its contract (not run: no server)', { state: 'skipped' }),
    testNamed('a broker > is killed', { state: 'skipped', note: 'two minutes' }),
    testNamed('a test that -t leaves out', { state: 'skipped' }),
    testNamed('a test (skipped: here)', { state: 'passed' }),
  ];
  new RunSummary().onTestRunEnd([{ children: { allTests: () => tests } } as unknown as TestModule]);
  expect(write.mock.calls.flat().join('')).toBe(
    [
      '',
      'Skipped with a reason:',
      '  1 of a.test.ts: where none (of 1.22) is installed',
      '  2 of a.test.ts: two minutes',
      '  1 of a.test.ts: no server',
      '',
    ].join('\n'),
  );
});
