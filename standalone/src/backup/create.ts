import { randomUUID } from 'node:crypto';
import path from 'node:path';
import { VaultClient } from '@token-vault/postgres';
import type pg from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import { readLogIdentity } from '@token-vault/event-store/postgres';
import { release } from '@token-vault/processes';
import { readApplied } from '@token-vault/processes/migrations';
import { BundleWriter } from './bundle-writer.ts';
import { copyOut, partsOf } from './contents.ts';
import { BackupError, bundleKinds, formatVersion, type BundleKind, type Manifest } from './format.ts';

export interface CreateOptions {
  /** The URL of a database that has this release's tables. */
  readonly url: string;
  /** Neither directory may exist, or lie in the other. */
  readonly directories: Readonly<Record<BundleKind, string>>;
  /**
   * The log in another server, as it was before the call: its keys were stored before its events, so the copy has them all. Undefined: the
   * log is in this database and is copied too.
   */
  readonly logElsewhere?: Manifest['log'] | undefined;
  readonly now: Date;
  readonly signal: AbortSignal;
  /** The number of rows written of a part, and of its total as far as that is known. */
  readonly onProgress?: (name: string, rows: number) => void;
}

/**
 * Copies the log, if it is in this database, and, into a separate directory, the key ring, both as of one moment, while the vault serves: one
 * snapshot, streamed. It holds back vacuum of the whole database while it runs, and blocks nothing else.
 * @throws BackupError
 */
export async function createBackup(options: CreateOptions): Promise<Manifest> {
  requireApart(options.directories);
  const writers = new Map<BundleKind, BundleWriter>();
  const client = new VaultClient({ connectionString: options.url, application_name: 'vault backup' });
  client.on('error', () => {});
  await client.connect();
  try {
    for (const kind of bundleKinds) writers.set(kind, await BundleWriter.open(options.directories[kind]));
    const manifest = await writeAll(client, writers, options);
    // The key ring is published first: a complete log then always has the keys that were taken with it.
    for (const kind of ['keys', 'log'] as const) await writers.get(kind)?.publish();
    return manifest;
  } finally {
    for (const writer of writers.values()) await writer.abandon();
    await client.end().catch(() => undefined);
  }
}

function requireApart({ log, keys }: CreateOptions['directories']): void {
  const isWithin = (inner: string, outer: string) =>
    `${path.resolve(inner)}${path.sep}`.startsWith(`${path.resolve(outer)}${path.sep}`);
  if (isWithin(log, keys) || isWithin(keys, log))
    throw new BackupError('the key ring must lie apart from the log: give --keys a directory of its own');
}

async function writeAll(
  client: pg.Client,
  writers: ReadonlyMap<BundleKind, BundleWriter>,
  { logElsewhere, now, signal, onProgress }: CreateOptions,
): Promise<Manifest> {
  await client.query('begin transaction isolation level repeatable read read only');
  await client.query('set local idle_in_transaction_session_timeout = 0; set local statement_timeout = 0');
  const log = logElsewhere ?? (await requireLogIdentity(client));
  const schema = await readSchema(client);
  const about = {
    format: 'token-vault backup' as const,
    format_version: formatVersion,
    backup_id: randomUUID(),
    created_at: now.toISOString(),
    release,
    log,
    schema,
  };
  for (const part of partsOf({ hasLog: logElsewhere === undefined })) {
    const rows = client.query(copyTo(copyOut(part)));
    const onRows = (count: number) => onProgress?.(part.name, count);
    const written = await writers.get(part.bundle)?.write(part.name, rows, { signal, onRows });
    if (part.name === 'events' && String(written?.rows) !== log.position)
      throw new BackupError(
        `the log has ${written?.rows} events up to position ${log.position}: some events are missing; see: vault audit verify`,
      );
  }
  await client.query('commit');
  for (const [kind, writer] of writers) await writer.seal({ ...about, kind });
  return { ...about, kind: 'log', files: [] };
}

/** @throws BackupError when the log is empty */
export async function requireLogIdentity(client: pg.Client): Promise<Manifest['log']> {
  const identity = await readLogIdentity(client);
  if (!identity) throw new BackupError('the log is empty: this vault has never started');
  return identity;
}

async function readSchema(client: pg.Client): Promise<Record<string, number>> {
  // Sorted by id: the last one of a set counts.
  return Object.fromEntries(((await readApplied(client)) ?? []).map(({ set, id }) => [set, id]));
}
