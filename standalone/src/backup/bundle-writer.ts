import { randomBytes, createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { access, mkdir, open, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { Transform, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { fileOf } from './contents.ts';
import { BackupError, manifestFile, writeManifest, type BackedUpFile, type Manifest } from './format.ts';

/** Sealed values do not compress. The other columns compress well already at the fastest level. */
const compression = { level: 1 };

/** A directory of a backup while it is written: under another name until all of it is on the disk. */
export class BundleWriter {
  readonly #directory: string;
  readonly #unfinished: string;
  readonly #files: BackedUpFile[] = [];

  private constructor(directory: string, unfinished: string) {
    this.#directory = directory;
    this.#unfinished = unfinished;
  }

  /** @throws BackupError when the directory exists. */
  static async open(directory: string): Promise<BundleWriter> {
    if (await isThere(directory)) throw new BackupError(`${directory} exists already`);
    await mkdir(path.dirname(directory), { recursive: true });
    const unfinished = `${directory}.unfinished-${randomBytes(4).toString('hex')}`;
    await mkdir(unfinished, { mode: 0o700 });
    return new BundleWriter(directory, unfinished);
  }

  /** Writes rows in the text format of COPY, durably. `onRows` gets the number of rows written so far. */
  async write(
    name: string,
    rows: Readable,
    { signal, onRows }: { readonly signal: AbortSignal; readonly onRows?: (count: number) => void },
  ): Promise<BackedUpFile> {
    const file = path.join(this.#unfinished, fileOf(name));
    const count = { rows: 0, bytes: 0 };
    const hash = createHash('sha256');
    await pipeline(
      rows,
      counting((chunk) => {
        count.rows += linesIn(chunk);
        onRows?.(count.rows);
      }),
      createGzip(compression),
      counting((chunk) => {
        hash.update(chunk);
        count.bytes += chunk.length;
      }),
      createWriteStream(file, { flags: 'wx', mode: 0o600, flush: true }),
      { signal },
    );
    const written = { name, ...count, sha256: hash.digest('hex') };
    this.#files.push(written);
    return written;
  }

  /** Writes the manifest as the last file. Without it the other files are no backup. */
  async seal(content: Omit<Manifest, 'files'>): Promise<void> {
    const text = writeManifest({ ...content, files: this.#files });
    const file = path.join(this.#unfinished, manifestFile);
    await writeFile(file, text, { flag: 'wx', mode: 0o600, flush: true });
    await syncDirectory(this.#unfinished);
  }

  /** Gives the directory its final name. Only after `seal`. @throws BackupError when the name was taken meanwhile. */
  async publish(): Promise<void> {
    if (await isThere(this.#directory)) throw new BackupError(`${this.#directory} exists already`);
    await rename(this.#unfinished, this.#directory);
    await syncDirectory(path.dirname(this.#directory));
  }

  /** Removes a directory that is not published. */
  async abandon(): Promise<void> {
    await rm(this.#unfinished, { recursive: true, force: true });
  }
}

function counting(see: (chunk: Buffer) => void): Transform {
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      see(chunk);
      done(null, chunk);
    },
  });
}

/** COPY escapes line feeds in values, so each line feed ends a row. */
function linesIn(chunk: Buffer): number {
  let count = 0;
  for (let at = chunk.indexOf(0x0a); at >= 0; at = chunk.indexOf(0x0a, at + 1)) count += 1;
  return count;
}

const isThere = (place: string): Promise<boolean> =>
  access(place).then(
    () => true,
    () => false,
  );

/** Makes the names in a directory durable. */
export async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, 'r');
  await handle.sync().finally(() => handle.close());
}

/** Replaces a file so that a reader finds the complete new one or the one before, never a part. */
export async function replaceFile(file: string, write: (unfinished: string) => Promise<void>): Promise<void> {
  const unfinished = `${file}.unfinished-${randomBytes(4).toString('hex')}`;
  try {
    await write(unfinished);
    await rename(unfinished, file);
    await syncDirectory(path.dirname(path.resolve(file)));
  } catch (error) {
    await rm(unfinished, { force: true });
    throw error;
  }
}
