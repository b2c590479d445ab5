import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** The test files that take longest. Neighbours in this list load the machine in different ways. */
const longest = [
  'deploy/test/containers',
  'test/access/matrix',
  'test/access/shown-by-rights.slow',
  'test/distributed/faults',
  'libs/invocation-feed/test/kafka',
  'test/access/canary-entrances',
  'test/neighbours/beside',
  'test/access/shown-by-rights-in-time',
  'test/distributed/signals',
  'console/test/console.slow',
  'test/neighbours/transactions',
  'test/how-to/pages.slow',
  'command-service/test/transactions/interleavings.slow',
  'test/chaos/kill',
  'standalone/test/cli-tenants',
  'reactor-runner/test/sandbox-nested',
  'test/access/cells',
  'test/how-to/restarts',
  'test/access/canary-gateway',
  'test/e2e/reactors-killed',
  'test/access/refusals',
  'test/distributed/rotation',
  'test/distributed/run-without-postgres',
  'deploy/test/dashboard',
  'test/distributed/rollout',
  'test/access/canary-commands',
];

function placeOf({ moduleId }: TestSpecification): number {
  const place = longest.findIndex((name) => moduleId.includes(name));
  return place < 0 ? longest.length : place;
}

/** Starts the longest files first: one that starts last runs alone at the end, while other processors are idle. */
export default class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return sorted.toSorted((one, other) => placeOf(one) - placeOf(other));
  }
}
