import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { fileOf, partsOf } from './contents.ts';
import { BackupError, manifestFile, readManifest, type BundleKind, type Manifest } from './format.ts';
import { linesOf } from './lines.ts';

/** A finished directory of a backup. */
export interface Bundle {
  readonly manifest: Manifest;
  /** Whether the bundle of a log has its events. They are elsewhere when the log was in another server. */
  readonly hasLog: boolean;
  /** Compares every file with its checksum. @throws BackupError */
  check(signal: AbortSignal): Promise<void>;
  /** The rows of a part as they were written, in batches of lines. */
  rows(name: string): AsyncGenerator<readonly string[], void>;
  /** The rows of a part in the format of COPY. */
  bytes(name: string): AsyncIterable<Buffer>;
  /** The number of rows of a part. */
  count(name: string): number;
}

/** @throws BackupError when the directory is not a complete bundle of that kind, or has a newer format. */
export async function openBundle(directory: string, kind: BundleKind): Promise<Bundle> {
  const place = path.join(directory, manifestFile);
  const text = await readFile(place, 'utf8').catch((cause: unknown) => {
    const code = (cause as NodeJS.ErrnoException).code ?? 'unknown';
    throw new BackupError(`${directory} is not a backup: its ${manifestFile} cannot be read (${code})`, {
      cause,
    });
  });
  const manifest = readManifest(text, kind, place);
  const entryOf = (name: string) => {
    const entry = manifest.files.find((each) => each.name === name);
    if (!entry) throw new BackupError(`${place} names no ${name}`);
    return entry;
  };
  const hasLog = manifest.files.some(({ name }) => name === 'events');
  const names = partsOf({ hasLog }).flatMap(({ name, bundle }) => (bundle === kind ? [name] : []));
  for (const name of names) entryOf(name);
  const bytes = (name: string): AsyncIterable<Buffer> =>
    unzipped(path.join(directory, fileOf(entryOf(name).name)));
  return {
    manifest,
    hasLog,
    bytes,
    rows: (name) => linesOf(bytes(name)),
    count: (name) => entryOf(name).rows,
    async check(signal) {
      for (const name of names)
        await requireSum(path.join(directory, fileOf(name)), entryOf(name).sha256, signal);
    },
  };
}

async function* unzipped(file: string): AsyncGenerator<Buffer, void> {
  const unzip = createGunzip();
  const done = pipeline(createReadStream(file), unzip);
  // `done` is awaited below. A reader that stops early ends the pipeline, and its error must not be an unhandled
  // rejection.
  done.catch(() => undefined);
  for await (const chunk of unzip) yield chunk as Buffer;
  await done;
}

async function requireSum(file: string, expected: string, signal: AbortSignal): Promise<void> {
  const hash = createHash('sha256');
  try {
    await pipeline(createReadStream(file), hash, { signal });
  } catch (cause) {
    signal.throwIfAborted();
    throw new BackupError(`${file} cannot be read (${(cause as NodeJS.ErrnoException).code ?? 'unknown'})`, {
      cause,
    });
  }
  if (hash.digest('hex') !== expected)
    throw new BackupError(`${file} was altered or cut off: its checksum is not that of the manifest`);
}
