import { existsSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { adapter, filesNamingTheLog } from '../../../scripts/store-law.ts';

const repository = path.resolve(import.meta.dirname, '../../..');

// `npm run deps` checks the files of the repository.
describe('the law of the log', () => {
  it('names an adapter that exists', () => {
    expect(existsSync(path.join(repository, adapter, 'migrations/001-event-log.sql'))).toBe(true);
  });

  it.each([
    ['standalone/src/a.ts', 'await pool.query(`select id from event_store.event`)', true],
    ['projectors/src/projections/a.sql', 'grant usage on schema event_store to x', true],
    ['libs/event-store/src/eventstoredb/a.ts', `const schema = 'event_store';`, true],
    ['processes/src/a.ts', 'const checks = { event_store: check };', false],
    ['standalone/src/b.ts', `const explained = ['event_store_unavailable'];`, false],
    [`${adapter}a.ts`, 'select id from event_store.event', false],
    ['standalone/test/a.ts', 'update event_store.event set data = null', false],
  ])('judges %s', (file, text, isLawless) => {
    expect(filesNamingTheLog([file], () => text)).toEqual(isLawless ? [file] : []);
  });
});
