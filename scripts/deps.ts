// `npm run deps`: the laws of the workspace. Who may import whom is judged by dependency-cruiser, who may name the tables of the log here.
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { lawless } from './store-law.ts';

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
// A file that was deleted but not committed has no text.
const textOf = (file: string): string => {
  try {
    return readFileSync(path.join(root, file), 'utf8');
  } catch {
    return '';
  }
};
const found = lawless(files, textOf);
for (const file of found)
  process.stderr.write(`error law-of-the-log: ${file} names event_store; only the adapter of Postgres may\n`);

const cruiser = path.join(root, 'node_modules/dependency-cruiser/bin/dependency-cruiser.mjs');
const args = [cruiser, '--config', '.dependency-cruiser.cjs', ...process.argv.slice(2), '.'];
const { status } = spawnSync(process.execPath, args, { cwd: root, stdio: 'inherit' });
process.exitCode = found.length > 0 ? 1 : (status ?? 1);
