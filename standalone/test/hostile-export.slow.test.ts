import { execFileSync } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
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

it('an import refuses an id that is an expression and a file that is none, tells of an id that two lines have, and prints no control characters of the file', async () => {
  const [dataDir, place] = [await createDataDirectory(), await createDataDirectory()];
  try {
    const { credentials } = await startStandaloneProcess({ dataDir });
    const key = path.join(place, 'key');
    await resultOf(dataDir, 'transfer', 'keygen', key);
    // An import handles fewer lines at once than there are others, so it meets the second line of one id later, of the other at the same time.
    const others = Array.from({ length: 40 }, (_, index) => ({
      id: `other-${index}`,
      type: 'token',
      data: 'o',
    }));
    const twice = [
      { id: 'adjacent', type: 'token', data: 'first' },
      { id: 'adjacent', type: 'token', data: 'second' },
      { id: 'early', type: 'token', data: 'first' },
      ...others,
      { id: 'early', type: 'token', data: 'second' },
    ];
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
      ...twice,
      { id: 'unknown', type: 'token', data: 'x', created_by: 'somebody' },
      '{"id":"number","type":"token","data":12345678901234567890}',
      `{"id":"deep","type":"token","data":${'['.repeat(20_000)}${']'.repeat(20_000)}}`,
      { end: true, tokens: 5 + twice.length, left_out: 0 },
    ];
    const texts = lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line)));
    const plaintext = Readable.from([Buffer.from(`${texts.join('\n')}\n`)]);
    const file = path.join(place, 'hostile');
    const recipient = (await readFile(`${key}.pub`, 'utf8')).trim();
    await writeFile(file, (await sealFor([recipient], plaintext)).stream);

    const args = ['import', credentials.tenant_id, file, '--identity', key];
    const { code, stdout, stderr } = await runCommand(dataDir, args);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/7 tokens were not imported/)]);
    expect(stdout.trim().split('\n')).toEqual([
      'refused: {{ data }}: line 2: id is required, and must be no expression',
      'refused: escaped: line 3: metadata.\u{FFFD}[2J\u{FFFD}imported: 999 must be text',
      expect.stringMatching(
        /^refused: adjacent: line [45]: id is also that of line [45], which was imported$/,
      ),
      'refused: unknown: line 48: created_by is not a known field',
      'refused: a token: line 49: data has a number that would be changed: send it as a string',
      'refused: a token: line 50: body must not be nested deeper than 100 levels',
      'refused: early: line 47: id is also that of line 6, which was imported',
      'export: 00000000-0000-4000-8000-0000000000e7',
      'imported: 42',
      'already there: 0',
    ]);
    const [head = ''] = texts;
    const bytes = ['{"id":"latin","type":"token","data":"\u00ff"}', '{"end":true,"tokens":1,"left_out":0}'];
    const latin = Buffer.from([head, ...bytes, ''].join('\n'), 'latin1');
    await writeFile(file.concat('-latin'), (await sealFor([recipient], Readable.from([latin]))).stream);
    const damaged = await runCommand(dataDir, args.with(2, file.concat('-latin')));
    expect([damaged.code, damaged.stdout, damaged.stderr.trim()]).toEqual([
      1,
      '',
      'vault: the file has bytes that are not UTF-8',
    ]);
    // The secret key may come from a pipe, which can be read once. The export is read twice.
    const [pipe, directory] = [path.join(place, 'pipe'), path.join(place, 'directory')];
    execFileSync('mkfifo', [pipe]);
    await mkdir(directory);
    for (const special of [pipe, directory, '/dev/null']) {
      const refused = await runCommand(dataDir, [
        'import',
        credentials.tenant_id,
        special,
        '--identity',
        key,
      ]);
      const message = `vault: ${special} is no regular file: an import reads it twice, so save the export first`;
      expect([refused.code, refused.stderr.trim()]).toEqual([1, message]);
    }
    const [repeat] = await Promise.all([
      runCommand(dataDir, [...args.slice(0, -1), pipe]),
      writeFile(pipe, await readFile(key)),
    ]);
    expect([repeat.code, repeat.stdout]).toEqual([
      1,
      stdout.replace('imported: 42', 'imported: 0').replace('already there: 0', 'already there: 42'),
    ]);
  } finally {
    await removeDataDirectory(dataDir);
    await removeDataDirectory(place);
  }
});
