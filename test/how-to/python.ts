import { spawnSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { blocksOf } from './shell-blocks.ts';
import { readHowTo } from './reader.ts';

export const hasPython = spawnSync('python3', ['--version']).status === 0;

/** Runs the Python of `verify-the-audit-log.md`, as it is printed there, on the text of an export. */
export async function checkByPython(exported: string, tenant: string, publicKey: string) {
  const scripts = blocksOf(await readHowTo('verify-the-audit-log')).filter(
    ({ language }) => language === 'python',
  );
  if (scripts.length !== 1) throw new Error('verify-the-audit-log.md must have one script in Python');
  const directory = await mkdtemp(path.join(tmpdir(), 'token-vault-python-'));
  try {
    const [script, file] = [path.join(directory, 'check_export.py'), path.join(directory, 'log.jsonl')];
    await writeFile(script, scripts[0]?.text ?? '');
    await writeFile(file, exported);
    const { status, stdout, stderr } = spawnSync('python3', [script, file, tenant, publicKey], {
      encoding: 'utf8',
      timeout: 60_000,
    });
    return { code: status, stdout, stderr };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
