import { existsSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  connectionLaw,
  filesBreaking,
  listenerLaw,
  lockLaw,
  logLaw,
  sqlLaws,
} from '../../../scripts/sql-laws.ts';

const repository = path.resolve(import.meta.dirname, '../../..');

// `npm run deps` checks the files of the repository.
describe('the laws of SQL', () => {
  it.each(sqlLaws)('$name has a folder that exists', ({ folder }) => {
    expect(existsSync(path.join(repository, folder))).toBe(true);
  });

  const judged: [law: typeof logLaw, file: string, text: string, isLawless: boolean][] = [
    [logLaw, 'standalone/src/a.ts', 'await pool.query(`select id from event_store.event`)', true],
    [logLaw, 'projectors/src/projections/a.sql', 'grant usage on schema event_store to x', true],
    [logLaw, 'libs/event-store/src/eventstoredb/a.ts', `const schema = 'event_store';`, true],
    [logLaw, 'processes/src/a.ts', 'const checks = { event_store: check };', false],
    [logLaw, 'standalone/src/b.ts', `const explained = ['event_store_unavailable'];`, false],
    [logLaw, `${logLaw.folder}a.ts`, 'select id from event_store.event', false],
    [logLaw, 'standalone/test/a.ts', 'update event_store.event set data = null', false],
    [lockLaw, 'projectors/src/a.ts', 'client.query(`select pg_advisory_lock($1)`)', true],
    [lockLaw, 'processes/src/migrations/a.sql', 'perform PG_TRY_ADVISORY_XACT_LOCK_SHARED(1)', true],
    [lockLaw, 'libs/crypto/src/a.ts', 'select pg_advisory_unlock_all()', true],
    [lockLaw, `${lockLaw.folder}a.ts`, 'select pg_advisory_lock($1)', false],
    [lockLaw, 'projectors/test/a.ts', 'select pg_advisory_lock(1)', false],
    [lockLaw, 'projectors/src/b.ts', '// An advisory lock is held meanwhile.', false],
    [listenerLaw, 'projectors/src/a.ts', 'await client.query(`listen ${channel}`)', true],
    [listenerLaw, 'libs/read-models/src/a.ts', `query('UNLISTEN *')`, true],
    [listenerLaw, `${listenerLaw.folder}a.ts`, 'client.query(`listen ${channel}`)', false],
    [listenerLaw, 'libs/process/src/a.ts', `server.listen(port, 'localhost')`, false],
    [connectionLaw, 'processes/src/a.ts', 'const pool = new pg.Pool({ max: 1 });', true],
    [connectionLaw, 'standalone/src/a.ts', 'const client = new pg.Client({ connectionString });', true],
    [connectionLaw, 'standalone/src/b.ts', 'const client = new VaultClient({ connectionString });', false],
    [connectionLaw, `${connectionLaw.folder}a.ts`, 'new pg.Pool({ Client: VaultClient })', false],
    [listenerLaw, 'deploy/nginx/a.ts', 'const line = `listen ${port} ssl;`;', false],
  ];

  it.each(judged.map(([law, ...of]) => [law.name, ...of, law] as const))('%s judges %s: %s', (...given) => {
    const [, file, text, isLawless, law] = given;
    expect(filesBreaking(law, [file], () => text)).toEqual(isLawless ? [file] : []);
  });
});
