import type { Application, Reactor } from '@token-vault/contracts';
import {
  createDataDirectory,
  plainApplication,
  removeDataDirectory,
  startStandaloneProcess,
  waitUntil,
  createTestPool,
} from '@token-vault/test-support';
import { expect, it, onTestFinished } from 'vitest';

interface Found {
  readonly type: string;
  readonly reason: string | null;
  readonly status: string | null;
  /** In seconds. */
  readonly age: number;
  readonly stream: string;
}

it('a run that ends while Postgres is lost has its result, and never a fault of the vault', async () => {
  const dataDir = await createDataDirectory();
  onTestFinished(() => removeDataDirectory(dataDir));
  const env = { VAULT_STACK_REPLICAS: '1' };
  const vault = await startStandaloneProcess({ dataDir, stack: 'processes', env });
  onTestFinished(async () => void (await vault.stop()));
  const manager = vault.client();
  const body = plainApplication({ permissions: ['token:use', 'token:create'] });
  const { key = '' } = (await manager.expect<Application>(201, 'POST', '/applications', { body })).body;
  const code = `module.exports = async (req) => {
    await new Promise((resolve) => setTimeout(resolve, 4_000));
    return { raw: 'done', tokenize: { a: 'one' } };
  };`;
  const reactor = { name: 'slow', configuration: {}, code };
  const { id } = (await manager.expect<Reactor>(201, 'POST', '/reactors', { body: reactor })).body;
  const backend = manager.withKey(key);
  await backend.expect(200, 'POST', `/reactors/${id}/react`, { body: { args: {} } });
  const started = async () => {
    const pool = createTestPool(await vault.databaseUrl());
    try {
      const { rows } = await pool.query<Found>(
        `select type, stream, data->>'reason' as reason, data->>'status' as status,
           extract(epoch from now() - (metadata->>'occurred_at')::timestamptz)::float as age
         from event_store.event
         where type in ('ReactorStarted', 'ReactorSucceeded', 'ReactorFailed') order by position offset 2`,
      );
      return rows;
    } finally {
      await pool.end();
    }
  };
  const runs = Array.from({ length: 8 }, () =>
    backend.request('POST', `/reactors/${id}/react`, { body: { args: {} } }).catch(() => undefined),
  );
  // Runs older than a second have begun and need no further data, so their results are expected.
  await waitUntil(async () => (await started()).filter(({ age }) => age > 1).length >= 4, { what: 'runs' });
  const begun = (await started()).filter(({ age }) => age > 1).map(({ stream }) => stream);
  process.kill(await vault.postmasterPid(), 'SIGKILL');
  const answers = (await Promise.all(runs)).map((answer) => answer?.status);
  // A run takes at most 10 s. The sweeper finds runs whose outcome could not be recorded.
  const ended = await waitUntil(
    async () => {
      const rows = await started().catch(() => []);
      const runsOf = rows.filter(({ type }) => type === 'ReactorStarted').length;
      return runsOf > 0 && rows.length === 2 * runsOf && rows;
    },
    { timeoutMs: 60_000, what: 'the outcomes' },
  );
  const outcomes = ended ? ended.filter(({ type }) => type !== 'ReactorStarted') : [];
  expect(outcomes.filter(({ stream }) => begun.includes(stream)).map(({ type }) => type)).toEqual(
    begun.map(() => 'ReactorSucceeded'),
  );
  // A run that had not begun may end without having run, but never with a fault of the vault.
  expect(outcomes.filter(({ status }) => status === '500')).toEqual([]);
  expect(answers.filter((status) => status === 500)).toEqual([]);
});
