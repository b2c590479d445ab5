// `npm run deps`: the dependency rules of the workspace. dependency-cruiser checks the imports. This script checks where some SQL is written.
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { filesBreaking, sqlLaws } from './sql-laws.ts';

const root = path.dirname(import.meta.dirname);
const listed = execFileSync(
  'git',
  ['ls-files', '--cached', '--others', '--exclude-standard', '--deduplicate'],
  {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 1e8,
  },
);
const files = listed.split('\n').filter((file) => file !== '');
// A deleted file stays in the list until the deletion is committed.
const textOf = (file: string): string => {
  try {
    return readFileSync(path.join(root, file), 'utf8');
  } catch {
    return '';
  }
};
const violations = sqlLaws.flatMap((law) =>
  filesBreaking(law, files, textOf).map((file) => `error ${law.name}: ${file} ${law.message}`),
);
for (const violation of violations) process.stderr.write(`${violation}\n`);

const cruiser = path.join(root, 'node_modules/dependency-cruiser/bin/dependency-cruiser.mjs');
const args = [cruiser, '--config', '.dependency-cruiser.cjs', ...process.argv.slice(2), '.'];
const { status } = spawnSync(process.execPath, args, { cwd: root, stdio: 'inherit' });
process.exitCode = violations.length > 0 ? 1 : (status ?? 1);
