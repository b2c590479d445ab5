import { generateX25519Identity, identityToRecipient } from 'age-encryption';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { SealedFile } from '../src/transfer/sealed-file.ts';
import { openWith, sealFor } from '../src/transfer/sealing.ts';

let directory: string;
beforeEach(async () => void (directory = await mkdtemp(path.join(os.tmpdir(), 'sealed-file-'))));
afterEach(() => rm(directory, { recursive: true }));

const pages = [
  '{"id":"small"}\n',
  `{"id":"large","data":"${'x'.repeat(200_000)}"}\n{"id":"last of it"}\n`,
  '{"id":"third"}\n',
];

it.each([1, 700])(
  'a page for %i recipients is in the file before the next one is asked for, however small it is',
  async (count) => {
    const file = path.join(directory, 'export');
    const identity = await generateX25519Identity();
    const recipient = await identityToRecipient(identity);
    // Two lines for each recipient, one more and the nonce.
    const header = 'age-encryption.org/v1\n'.length + count * 98 + '--- \n'.length + 43 + 16;
    const sealedFile = new SealedFile();
    const sizes: number[] = [];
    async function* lines() {
      yield sealedFile.take('{"header":true}\n');
      for (const page of pages) {
        yield sealedFile.fill(page);
        await sealedFile.written();
        sizes.push((await stat(file)).size);
      }
      yield sealedFile.take('{"end":true}\n');
    }
    const recipients = Array.from({ length: count }, () => recipient);
    await sealedFile.write(file, () => sealFor(recipients, lines()));

    const sealed = 64 * 1024 + 16;
    // One chunk, four more, and one more.
    expect(sizes.map((size) => (size - header) / sealed)).toEqual([1, 5, 6]);
    let text = '';
    for await (const chunk of openWith([identity], file)) text += chunk.toString();
    const given = text.split('\n').map((line) => line.trimEnd());
    expect(given).toEqual([
      '{"header":true}',
      ...pages.join('').split('\n').slice(0, -1),
      '{"end":true}',
      '',
    ]);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
  },
);

it('no page is asked for when the file cannot be made', async () => {
  const recipients = [await identityToRecipient(await generateX25519Identity())];
  let asked = 0;
  async function* lines() {
    asked += 1;
    yield Buffer.from('a page\n');
  }
  const writing = new SealedFile().write(path.join(directory, 'none', 'export'), () =>
    sealFor(recipients, lines()),
  );
  await expect(writing).rejects.toThrow('ENOENT');
  expect(asked).toBe(0);
});
