import { tmpdir } from 'node:os';

/** Vaults and databases of tests keep their data below it. CI names a directory in memory where there is enough. */
export const testDirectory = process.env['TEST_DIRECTORY'] || tmpdir();
