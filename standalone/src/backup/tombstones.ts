import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { VaultClient } from '@token-vault/postgres';
import { to as copyTo } from 'pg-copy-streams';
import { z } from 'zod';
import { replaceFile } from './bundle-writer.ts';
import { requireLogIdentity } from './create.ts';
import { BackupError, type Manifest } from './format.ts';
import { linesOf } from './lines.ts';

/**
 * Version 1 listed the keys that were destroyed since one backup, and did not know the keys made after that backup.
 */
const tombstonesVersion = 2;

const header = z.object({
  format: z.literal('token-vault tombstones'),
  format_version: z.int().min(1),
  created_at: z.iso.datetime(),
  log_id: z.uuid(),
  /** The position of the log when the file was made. Later destructions are not in the file. */
  position: z.string().regex(/^\d{1,20}$/),
  /** Tenants whose keys were destroyed. */
  tenants: z.array(z.uuid()),
});
type TombstoneHeader = z.infer<typeof header>;

const uuidForm = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/;
const endForm = /^end (\d+) ([\da-f]{64})$/;
/** Ids in hex compress to about half at every level. */
const compression = { level: 1 };

export interface TombstoneOptions {
  readonly url: string;
  /** As for a backup. */
  readonly logElsewhere?: Manifest['log'] | undefined;
  readonly file: string;
  readonly now: Date;
  readonly signal: AbortSignal;
}

export interface WrittenTombstones {
  readonly liveKeys: number;
  readonly tenants: number;
  readonly position: string;
}

/**
 * Writes the ids of the living data keys and of the destroyed tenants, as of one moment. A restore of any earlier
 * backup loads only these keys. A list of living keys serves every backup, because a key that it does not name is
 * destroyed, whatever destroyed it. The file holds no secrets. It is replaced completely or not at all.
 * @throws BackupError when the log is empty
 */
export async function writeTombstones(options: TombstoneOptions): Promise<WrittenTombstones> {
  const { file, now, signal, url } = options;
  const client = new VaultClient({ connectionString: url, application_name: 'vault backup' });
  client.on('error', () => {});
  await client.connect();
  try {
    await client.query('begin transaction isolation level repeatable read read only');
    await client.query('set local idle_in_transaction_session_timeout = 0; set local statement_timeout = 0');
    const { id, position } = options.logElsewhere ?? (await requireLogIdentity(client));
    const { rows } = await client.query<{ tenant_id: string }>(
      'select tenant_id from key_ring.destroyed_tenant order by tenant_id',
    );
    const tenants = rows.map((row) => row.tenant_id);
    const about: TombstoneHeader = {
      format: 'token-vault tombstones',
      format_version: tombstonesVersion,
      created_at: now.toISOString(),
      log_id: id,
      position,
      tenants,
    };
    const ids = client.query(copyTo('copy (select id from key_ring.data_key order by id) to stdout'));
    const content = { liveKeys: 0 };
    await replaceFile(file, (unfinished) =>
      pipeline(
        Readable.from(contentOf(about, linesOf(ids), content)),
        createGzip(compression),
        createWriteStream(unfinished, { flags: 'wx', mode: 0o600, flush: true }),
        { signal },
      ),
    );
    return { ...content, tenants: tenants.length, position };
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** One line with the header, one line for each key, and a last line with the count and the checksum. */
async function* contentOf(
  about: TombstoneHeader,
  keyIds: AsyncIterable<readonly string[]>,
  written: { liveKeys: number },
): AsyncGenerator<string, void> {
  const hash = createHash('sha256');
  const summed = (text: string): string => {
    hash.update(text);
    return text;
  };
  yield summed(`${JSON.stringify(about)}\n`);
  for await (const batch of keyIds) {
    written.liveKeys += batch.length;
    yield summed(batch.map((id) => `${id}\n`).join(''));
  }
  yield `end ${written.liveKeys} ${hash.digest('hex')}\n`;
}

export interface Tombstones extends TombstoneHeader {
  /** The ids of the data keys that lived when the file was made, ascending, in batches. */
  liveKeyIds(): AsyncGenerator<readonly string[], void>;
}

/**
 * Reads the file once to its end.
 * @throws BackupError when the file is incomplete, belongs to another vault, or is older than the backup: keys made
 * in between would count as destroyed
 */
export async function openTombstones(
  file: string,
  { log, created_at: createdAt }: Pick<Manifest, 'log' | 'created_at'>,
): Promise<Tombstones> {
  const about = await checkWhole(file);
  if (about.log_id !== log.id) throw new BackupError(`${file} is of another vault`);
  const isOlder = Date.parse(about.created_at) < Date.parse(createdAt);
  // The positions of a restored vault continue from those of its backup, so tombstones from before the restore may
  // have a higher one.
  if (isOlder || BigInt(about.position) < BigInt(log.position))
    throw new BackupError(
      `${file} was made before the backup (${about.created_at}, position ${about.position}; the backup's are ${createdAt}, ${log.position}): use newer tombstones, or none if the backup is the newest copy that you have`,
    );
  return {
    ...about,
    async *liveKeyIds() {
      for await (const lines of linesIn(file)) {
        const ids = lines.filter((line) => uuidForm.test(line));
        if (ids.length > 0) yield ids;
      }
    },
  };
}

async function checkWhole(file: string): Promise<TombstoneHeader> {
  let about: TombstoneHeader | undefined;
  let count = 0;
  let isEnded = false;
  const hash = createHash('sha256');
  for await (const lines of linesIn(file)) {
    for (const line of lines) {
      if (isEnded) throw altered(file);
      const end = endForm.exec(line);
      if (end) {
        isEnded = end[1] === String(count) && end[2] === hash.digest('hex');
        if (!isEnded) throw altered(file);
        continue;
      }
      hash.update(`${line}\n`);
      if (!about) about = headerIn(line, file);
      else if (uuidForm.test(line)) count += 1;
      else throw altered(file);
    }
  }
  if (!about || !isEnded) throw altered(file);
  return about;
}

async function* linesIn(file: string): AsyncGenerator<readonly string[], void> {
  const unzip = createGunzip();
  const source = createReadStream(file);
  const done = pipeline(source, unzip);
  // `done` is awaited below. A reader that stops early ends the pipeline, and its error must not be an unhandled
  // rejection.
  done.catch(() => undefined);
  try {
    yield* linesOf(unzip as AsyncIterable<Buffer>);
    await done;
  } catch (cause) {
    throw unreadable(file, cause);
  }
}

function unreadable(file: string, cause: unknown): Error {
  const code = (cause as NodeJS.ErrnoException).code ?? '';
  if (code === 'Z_BUF_ERROR' || code === 'Z_DATA_ERROR' || code === 'ERR_STREAM_PREMATURE_CLOSE')
    return isPlainText(cause)
      ? notCurrent(file, cause)
      : new BackupError(`${file} was altered or cut off`, { cause });
  if (cause instanceof BackupError) return cause;
  return new BackupError(`${file} cannot be read (${code || 'unknown'})`, { cause });
}

/** Version 1 was not compressed. */
const isPlainText = (cause: unknown): boolean => /incorrect header check/.test(String(cause));

const notCurrent = (file: string, cause: unknown) =>
  new BackupError(`${file} is not a list of tombstones, or one of an earlier release: make a new one`, {
    cause,
  });

const altered = (file: string) => new BackupError(`${file} was altered or cut off`);

function headerIn(line: string, file: string): TombstoneHeader {
  let parsed: unknown;
  try {
    parsed = JSON.parse(line);
  } catch {
    throw altered(file);
  }
  const version = (parsed as { format_version?: unknown }).format_version;
  if (typeof version === 'number' && version > tombstonesVersion)
    throw new BackupError(`${file} has format ${version}, this release knows up to ${tombstonesVersion}`);
  const read = header.safeParse(parsed);
  if (!read.success) throw new BackupError(`${file} is not a list of tombstones`);
  return read.data;
}
