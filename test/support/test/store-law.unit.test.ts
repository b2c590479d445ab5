import { readFileSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { describe, expect, it } from 'vitest';

const repository = path.resolve(import.meta.dirname, '../../..');
const adapter = 'libs/event-store/src/postgres/';

/** The schema of the log, as SQL names it. Neither `event_store_unavailable` nor the key of a health check is meant. */
const namesTheSchema = /\bevent_store\b(?!:)/;

/** Tests may tamper beneath the adapter, and benchmarks fill a log without it. The protocol of EventStoreDB has a package of that name. */
const isExempt = (file: string): boolean =>
  file.startsWith(adapter) || /^test\/|\/test\/|\.test\.ts$/.test(file);

const isSource = (file: string): boolean => /\.(ts|sql|mjs|cjs|js)$/.test(file);

/** Docs, deployment files and everything else that is not program text are free. */
function lawless(files: readonly string[], textOf: (file: string) => string): string[] {
  return files.filter((file) => isSource(file) && !isExempt(file) && namesTheSchema.test(textOf(file)));
}

describe('the law of the log', () => {
  it('lets only the adapter of Postgres name the tables of the log', () => {
    const listed = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
      cwd: repository,
      encoding: 'utf8',
      maxBuffer: 1e8,
    });
    const files = listed.split('\n').filter((file) => file !== '');
    expect(files).toContain(`${adapter}migrations/001-event-log.sql`);
    expect(lawless(files, (file) => readFileSync(path.join(repository, file), 'utf8'))).toEqual([]);
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
    expect(lawless([file], () => text)).toEqual(isLawless ? [file] : []);
  });
});
