import { mkdtemp, readdir, rm, symlink } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { makeKeyPair } from '../src/transfer/sealing.ts';

const here = import.meta.dirname;

it('no key pair is made in the checkout, also not by a link to it', async () => {
  const place = await mkdtemp(path.join(os.tmpdir(), 'key-pair-'));
  onTestFinished(() => rm(place, { recursive: true }));
  await symlink(here, path.join(place, 'link'));
  const before = await readdir(here);
  for (const directory of [here, path.join(place, 'link')])
    await expect(makeKeyPair(path.join(directory, 'recipient'))).rejects.toThrow(
      'lies in the checkout of the vault',
    );
  expect(await readdir(here)).toEqual(before);
  await makeKeyPair(path.join(place, 'recipient'));
  expect(await readdir(place)).toEqual(['link', 'recipient', 'recipient.pub']);
});
