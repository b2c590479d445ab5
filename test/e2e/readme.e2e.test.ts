import {
  createDataDirectory,
  removeDataDirectory,
  type StandaloneProcess,
  startStandaloneProcess,
} from '@token-vault/test-support';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { scriptOf } from '../how-to/shell-blocks.ts';

const run = promisify(execFile);
const readme = path.resolve(import.meta.dirname, '../../README.md');

describe('the session in the README', () => {
  let dataDir: string;
  let vault: StandaloneProcess;

  beforeAll(async () => {
    dataDir = await createDataDirectory();
    vault = await startStandaloneProcess({ dataDir });
  });
  afterAll(() => removeDataDirectory(dataDir));

  it('runs as it is written, command after command', async () => {
    const script = scriptOf(await readFile(readme, 'utf8'), { under: 'A session' });
    // The environment holds only the variables that the README tells the reader to set.
    const env = { PATH: process.env.PATH ?? '', VAULT_URL: vault.url, VAULT_DATA_DIR: dataDir };
    const done = await run('bash', ['-c', script], { cwd: path.dirname(readme), env, timeout: 25_000 }).catch(
      (error: unknown) => error as { code: number; stdout: string; stderr: string },
    );
    expect(done).not.toHaveProperty('code');
    // The answers are checked, because curl succeeds for every answer.
    expect(done.stdout).not.toContain('urn:token-vault:problem:unauthenticated');
    expect(done.stdout).not.toContain('urn:token-vault:problem:validation-failed');
    const { body } = await vault
      .client()
      .expect<{ data: { operation: string }[] }>(200, 'GET', '/logs?size=100');
    const operations = new Set(body.data.map(({ operation }) => operation));
    expect([...operations]).toEqual(expect.arrayContaining(['create', 'read', 'list', 'delete']));
  });
});
