import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { startKafka } from '@token-vault/test-support/kafka';

// `npm run test:distributed -- [stack …] [suite …]`: the end-to-end suites, unchanged, against each stack. A stack that
// cannot run here reports the reason.

const root = path.resolve(import.meta.dirname, '../..');
const suites = ['story', 'read-your-writes', 'canary', 'openapi', 'access-changes', 'reactors', 'spans'];

interface Stack {
  /** The value of VAULT_TEST_STACK. */
  readonly name: string;
  readonly description: string;
  /** Gives the further environment of the stack, or the reason why it cannot run. */
  prepare?(): Promise<Prepared | { readonly missing: string }>;
}

interface Prepared {
  readonly environment: NodeJS.ProcessEnv;
  stop(): Promise<void>;
}

async function prepareKafka(): Promise<Prepared | { readonly missing: string }> {
  const kafka = await startKafka();
  if ('missing' in kafka) return kafka;
  return { environment: { KAFKA_BROKERS: kafka.brokers.join(',') }, stop: () => kafka.stop() };
}

const stacks: readonly Stack[] = [
  { name: 'standalone', description: 'the standalone vault' },
  { name: 'processes', description: 'separate processes, the log in Postgres' },
  {
    name: 'eventstoredb',
    description: 'separate processes, the log in the double of EventStoreDB, invocations by the direct feed',
  },
  {
    name: 'eventstoredb-kafka',
    description: 'separate processes, the log in the double of EventStoreDB, invocations by a real Kafka',
    prepare: prepareKafka,
  },
];

async function runSuites(files: readonly string[], environment: NodeJS.ProcessEnv): Promise<boolean> {
  // Nine processes a vault: one file at a time. vitest.config.ts gives them longer time limits.
  const limits = ['--maxWorkers', '1'];
  const vitest = [path.join(root, 'node_modules/vitest/vitest.mjs'), 'run', '--project', 'default'];
  const child = spawn(process.execPath, [...process.execArgv, ...vitest, ...limits, ...files], {
    cwd: root,
    env: { ...process.env, ...environment },
    stdio: 'inherit',
  });
  const [code] = (await once(child, 'exit')) as [number | null];
  return code === 0;
}

/** `passed`, `failed`, or the reason why it was skipped. */
async function runStack(stack: Stack, files: readonly string[]): Promise<string> {
  const { name } = stack;
  const prepared = await stack.prepare?.();
  if (prepared && 'missing' in prepared) return `skipped: ${prepared.missing}`;
  try {
    const hasPassed = await runSuites(files, { VAULT_TEST_STACK: name, ...prepared?.environment });
    return hasPassed ? 'passed' : 'failed';
  } finally {
    await prepared?.stop();
  }
}

const wanted = process.argv.slice(2);
const wantedStacks = stacks.filter(({ name }) => wanted.includes(name));
const wantedSuites = suites.filter((name) => wanted.includes(name));
const unknown = wanted.find((name) => !suites.includes(name) && !stacks.some((stack) => stack.name === name));
if (unknown !== undefined) throw new Error(`there is no stack or suite ${unknown}`);
const files = (wantedSuites.length > 0 ? wantedSuites : suites).map((name) => `test/e2e/${name}.e2e.test.ts`);
const results: string[] = [];
for (const stack of wantedStacks.length > 0 ? wantedStacks : stacks) {
  process.stdout.write(`\n== ${stack.name}: ${stack.description}\n`);
  const startedMs = performance.now();
  const result = await runStack(stack, files);
  results.push(`${stack.name}: ${result} (${Math.round((performance.now() - startedMs) / 1000)} s)`);
  if (result === 'failed') process.exitCode = 1;
}
process.stdout.write(`\n${results.join('\n')}\n`);
