import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import type { Pool } from 'pg';
import { z } from 'zod';
import type { Bundle } from './bundle-reader.ts';
import { replaceFile } from './bundle-writer.ts';
import { readLogIdentity } from './create.ts';
import { missingKeys } from './destroyed-keys.ts';
import { BackupError, formatVersion, type Manifest } from './format.ts';
import { linesOf } from './lines.ts';

const header = z.object({
  format: z.literal('token-vault tombstones'),
  format_version: z.int().min(1),
  created_at: z.iso.datetime(),
  log_id: z.uuid(),
  /** Of the backup that it was made for. It serves later ones as well. */
  since: z.string(),
  /** Where the log was when it was made: later destructions are not in it. */
  position: z.string(),
  tenants: z.array(z.uuid()),
});
export type TombstoneHeader = z.infer<typeof header>;

const uuidForm = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/;
const endForm = /^end (\d+) ([\da-f]{64})$/;

export interface TombstoneOptions {
  readonly url: string;
  readonly pool: Pool;
  /** The log's part of the oldest backup that may yet be restored. */
  readonly since: Bundle;
  readonly file: string;
  readonly now: Date;
  readonly signal: AbortSignal;
}

/**
 * Writes which keys of a backup were destroyed since: a line with what it is about, a line for each data key, a line that ends
 * it. No secrets. Takes the place of the file before.
 * @throws BackupError when the backup is not of this log.
 */
export async function writeTombstones(options: TombstoneOptions): Promise<{ keys: number; tenants: number }> {
  const { pool, since, file, now, signal, url } = options;
  await since.check(signal);
  const { log } = since.manifest;
  const { id, position } = await readLogIdentity(pool);
  if (id !== log.id || BigInt(position) < BigInt(log.position))
    throw new BackupError('the backup is not of this vault, or newer than it');
  const { rows } = await pool.query<{ tenant_id: string }>(
    'select tenant_id from key_ring.destroyed_tenant order by tenant_id',
  );
  const about: TombstoneHeader = {
    format: 'token-vault tombstones',
    format_version: formatVersion,
    created_at: now.toISOString(),
    log_id: id,
    since: log.position,
    position,
    tenants: rows.map((row) => row.tenant_id),
  };
  let keys = 0;
  await replaceFile(file, async (unfinished) => {
    const handle = await open(unfinished, 'wx', 0o600);
    const hash = createHash('sha256');
    const write = async (text: string) => {
      signal.throwIfAborted();
      hash.update(text);
      await handle.write(text);
    };
    try {
      await write(`${JSON.stringify(about)}\n`);
      for await (const missing of missingKeys(since, url)) {
        keys += missing.length;
        await write(missing.map(({ keyId }) => `${keyId}\n`).join(''));
      }
      await handle.write(`end ${keys} ${hash.digest('hex')}\n`);
      await handle.sync();
    } finally {
      await handle.close();
    }
  });
  return { keys, tenants: about.tenants.length };
}

export interface Tombstones extends TombstoneHeader {
  readonly count: number;
  /** Ids of destroyed data keys in rising order, in batches. */
  keyIds(): AsyncGenerator<readonly string[], void>;
}

/** Reads the file once to the end. @throws BackupError when it is not whole, or not of the backup's log. */
export async function openTombstones(file: string, log: Manifest['log']): Promise<Tombstones> {
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
  if (about.log_id !== log.id) throw new BackupError(`${file} is of another vault`);
  if (BigInt(about.since) > BigInt(log.position))
    throw new BackupError(
      `${file} tells what was destroyed of a later backup: what this one had, and that had no more, is not in it`,
    );
  return {
    ...about,
    count,
    async *keyIds() {
      for await (const lines of linesIn(file)) {
        const ids = lines.filter((line) => uuidForm.test(line));
        if (ids.length > 0) yield ids;
      }
    },
  };
}

const linesIn = (file: string) => linesOf(createReadStream(file) as AsyncIterable<Buffer>);

const altered = (file: string) => new BackupError(`${file} was altered or cut off`);

function headerIn(line: string, file: string): TombstoneHeader {
  let parsed: unknown;
  try {
    parsed = JSON.parse(line);
  } catch {
    throw altered(file);
  }
  const version = (parsed as { format_version?: unknown }).format_version;
  if (typeof version === 'number' && version > formatVersion)
    throw new BackupError(`${file} has format ${version}, this release knows up to ${formatVersion}`);
  const read = header.safeParse(parsed);
  if (!read.success) throw new BackupError(`${file} is not a list of tombstones`);
  return read.data;
}
