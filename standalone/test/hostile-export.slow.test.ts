import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { Readable } from 'node:stream';
import {
  createDataDirectory,
  removeDataDirectory,
  resultOf,
  runCommand,
  startStandaloneProcess,
} from '@token-vault/test-support';
import { expect, it, vi } from 'vitest';
import { sealFor } from '../src/transfer/sealing.ts';

vi.setConfig({ testTimeout: 120_000 });

it('an import refuses an id that is an expression, and prints no control characters of the file', async () => {
  const [dataDir, place] = [await createDataDirectory(), await createDataDirectory()];
  try {
    const { credentials } = await startStandaloneProcess({ dataDir });
    const key = path.join(place, 'key');
    await resultOf(dataDir, 'transfer', 'keygen', key);
    const lines = [
      {
        format: 'token-vault export',
        format_version: 1,
        export_id: '00000000-0000-4000-8000-0000000000e7',
        tenant_id: credentials.tenant_id,
        created_at: new Date().toISOString(),
      },
      { id: '{{ data }}', type: 'token', data: 'becomes an id' },
      { id: 'escaped', type: 'token', data: 'x', metadata: { '\u001B[2J\nimported: 999': 5 } },
      { end: true, tokens: 2, left_out: 0 },
    ];
    const plaintext = Readable.from([Buffer.from(lines.map((line) => `${JSON.stringify(line)}\n`).join(''))]);
    const file = path.join(place, 'hostile');
    const recipient = (await readFile(`${key}.pub`, 'utf8')).trim();
    await writeFile(file, await sealFor([recipient], plaintext));

    const { code, stdout } = await runCommand(dataDir, [
      'import',
      credentials.tenant_id,
      file,
      '--identity',
      key,
    ]);
    expect(code).toBe(1);
    expect(stdout.trim().split('\n')).toEqual([
      'refused: {{ data }}: is not valid at id',
      'refused: escaped: is not valid at metadata.\u{FFFD}[2J\u{FFFD}imported: 999',
      'export: 00000000-0000-4000-8000-0000000000e7',
      'imported: 0',
      'already there: 0',
    ]);
  } finally {
    await removeDataDirectory(dataDir);
    await removeDataDirectory(place);
  }
});
