import path from 'node:path';

export const pinnedNode = path.resolve(import.meta.dirname, '../../../node_modules/node/bin/node');

/** With VAULT_TEST_PROGRAMS, programs start from one file each (scripts/test-programs.mjs). Processes that they start inherit these flags. */
export const programs: readonly string[] = process.env['VAULT_TEST_PROGRAMS']
  ? ['--import', process.env['VAULT_TEST_PROGRAMS']]
  : [];
