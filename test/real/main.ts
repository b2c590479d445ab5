import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';

// `npm run test:real`: the suites of the stores and the broker, on running servers. The servers are named by EVENTSTOREDB_URL,
// KAFKA_BROKERS (comma-separated) and DATABASE_URL (a superuser: the tests make databases of their own). Tests write to them.

const root = path.resolve(import.meta.dirname, '../..');
const { EVENTSTOREDB_URL, KAFKA_BROKERS, DATABASE_URL } = process.env;

interface Run {
  readonly files: readonly string[];
  readonly environment?: NodeJS.ProcessEnv;
}

function runsFor(): Run[] {
  const runs: Run[] = [];
  const stores: string[] = [];
  if (EVENTSTOREDB_URL) stores.push('libs/event-store/test/eventstoredb-real');
  if (KAFKA_BROKERS) stores.push('libs/invocation-feed/test/kafka');
  if (DATABASE_URL)
    stores.push('libs/event-store/test/postgres', 'libs/postgres/', 'libs/crypto/', 'projectors/test/');
  if (stores.length > 0) runs.push({ files: stores, environment: { VAULT_TEST_POSTGRES_URL: DATABASE_URL } });
  if (EVENTSTOREDB_URL) {
    const VAULT_TEST_STACK = KAFKA_BROKERS ? 'eventstoredb-kafka' : 'eventstoredb';
    const files = ['story', 'reactors', 'reactor-errors'].map((name) => `test/e2e/${name}.e2e`);
    runs.push({ files, environment: { VAULT_TEST_STACK } });
  }
  return runs;
}

async function passes({ files, environment }: Run): Promise<boolean> {
  const limits = ['--maxWorkers', '1', '--hookTimeout', '180000', '--testTimeout', '120000'];
  const vitest = [path.join(root, 'node_modules/vitest/vitest.mjs'), 'run', ...limits, ...files];
  const child = spawn(process.execPath, [...process.execArgv, ...vitest], {
    cwd: root,
    env: { ...process.env, ...environment },
    stdio: 'inherit',
  });
  const [code] = (await once(child, 'exit')) as [number | null];
  return code === 0;
}

const runs = runsFor();
if (runs.length === 0) throw new Error('set EVENTSTOREDB_URL, KAFKA_BROKERS or DATABASE_URL');
for (const run of runs) if (!(await passes(run))) process.exitCode = 1;
