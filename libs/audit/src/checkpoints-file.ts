import { open, readFile, rename } from 'node:fs/promises';
import path from 'node:path';
import { KnownCheckpoints } from './known-checkpoints.ts';

/** Tenant, revision, position and signature. */
const line = /^([\da-f-]{36}) (\d+) (\d+) ([\w-]{86})$/;

class CheckpointsFileError extends Error {
  readonly code = 'checkpoints_file';
}

/** None when the file does not exist. @throws CheckpointsFileError */
export async function readCheckpoints(file: string): Promise<KnownCheckpoints> {
  const known = new KnownCheckpoints();
  const lines = (await readText(file)).split('\n');
  for (const [index, text] of lines.entries()) {
    if (text === '') continue;
    const [, tenantId, revision, through, signature] = line.exec(text) ?? [];
    if (tenantId === undefined || through === undefined || signature === undefined)
      throw new CheckpointsFileError(`${file}: line ${index + 1} names no checkpoint`);
    known.learn(tenantId, { revision: Number(revision), through, signature });
  }
  return known;
}

async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw new CheckpointsFileError(`${file} cannot be read`, { cause });
  }
}

/** The file appears whole and durably, or stays as it was. One process writes it at a time. */
export async function writeCheckpoints(file: string, known: KnownCheckpoints): Promise<void> {
  const lines = [...known].map(
    ([tenantId, { revision, through, signature }]) => `${tenantId} ${revision} ${through} ${signature}\n`,
  );
  const unfinished = `${file}.unfinished`;
  const handle = await open(unfinished, 'w', 0o600);
  try {
    await handle.writeFile(lines.toSorted().join(''));
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(unfinished, file);
  const directory = await open(path.dirname(file), 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
