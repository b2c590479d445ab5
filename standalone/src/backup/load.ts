import { completeCopiedLog } from '@token-vault/event-store/postgres';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { VaultClient } from '@token-vault/postgres';
import pg from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import type { Bundle } from './bundle-reader.ts';
import { copyIn, partNamed, partsOf } from './contents.ts';
import { BackupError } from './format.ts';
import { among } from './lines.ts';
import type { Tombstones } from './tombstones.ts';

type Batches = AsyncIterable<readonly string[]>;

export interface LoadOptions {
  readonly url: string;
  readonly signal: AbortSignal;
  /** Called before a part is loaded. */
  readonly onPart?: (name: string, rows: number) => void;
}

/**
 * Loads the key ring. Of the data keys it loads only those that the tombstones list as alive: a destroyed key is not
 * even written to the new disk.
 * @returns the number of data keys that were left out
 */
export function insertKeys(
  keys: Bundle,
  tombstones: Tombstones | undefined,
  now: Date,
  options: LoadOptions,
): Promise<number> {
  return inTransaction(options, async (client) => {
    const isGone = new Set(tombstones?.tenants);
    let left = 0;
    for (const { name } of partsOf(keys).filter(({ bundle }) => bundle === 'keys')) {
      options.onPart?.(name, keys.count(name));
      const tenantColumn = tenantColumnOf(name);
      let rows: Batches = keys.rows(name);
      if (name === 'data-keys' && tombstones) rows = among(rows, tombstones.liveKeyIds());
      if (tenantColumn >= 0 && isGone.size > 0) rows = ofOtherTenants(rows, tenantColumn, isGone);
      const loaded = await copy(client, name, bytesOf(rows), options.signal);
      if (name === 'data-keys') left = keys.count(name) - loaded;
      else if (isGone.size === 0 || tenantColumn < 0) requireCount(name, loaded, keys.count(name));
    }
    if (tombstones)
      await client.query(
        `insert into key_ring.destroyed_tenant (tenant_id, destroyed_at)
         select id, $2 from unnest($1::uuid[]) as id on conflict do nothing`,
        [tombstones.tenants, now],
      );
    return left;
  });
}

const tenantColumnOf = (name: string): number =>
  name === 'destroyed-tenants' ? -1 : partNamed(name).columns.indexOf('tenant_id');

async function* ofOtherTenants(
  rows: Batches,
  column: number,
  isGone: ReadonlySet<string>,
): AsyncGenerator<readonly string[], void> {
  for await (const batch of rows) yield batch.filter((line) => !isGone.has(line.split('\t')[column] ?? ''));
}

async function* bytesOf(rows: Batches): AsyncGenerator<Buffer, void> {
  for await (const batch of rows) if (batch.length > 0) yield Buffer.from(`${batch.join('\n')}\n`);
}

/**
 * Loads the log, if the bundle has it, and its other parts, either all or nothing. Streams and head are computed from the events.
 */
export function insertLog(log: Bundle, options: LoadOptions): Promise<void> {
  return inTransaction(options, async (client) => {
    for (const { name } of partsOf(log).filter(({ bundle }) => bundle === 'log')) {
      options.onPart?.(name, log.count(name));
      requireCount(name, await copy(client, name, log.bytes(name), options.signal), log.count(name));
    }
    if (!log.hasLog) return;
    const { position, events } = await completeCopiedLog(client);
    if (position !== log.manifest.log.position || events !== position)
      throw new BackupError(
        `the events of the backup are not those up to position ${log.manifest.log.position}: it was altered`,
      );
  });
}

async function copy(
  client: pg.Client,
  name: string,
  bytes: AsyncIterable<Buffer>,
  signal: AbortSignal,
): Promise<number> {
  const into = client.query(copyFrom(copyIn(partNamed(name))));
  try {
    await pipeline(Readable.from(bytes, { objectMode: false }), into, { signal });
  } catch (cause) {
    signal.throwIfAborted();
    if (cause instanceof BackupError || !(cause instanceof pg.DatabaseError)) throw cause;
    // The message of the database may hold the values of a row.
    throw new BackupError(`the ${name} of the backup cannot be loaded (${cause.code}): it was altered`, {
      cause,
    });
  }
  return into.rowCount;
}

function requireCount(name: string, loaded: number, expected: number): void {
  if (loaded !== expected)
    throw new BackupError(`the backup has ${loaded} ${name}, its manifest says ${expected}: it was altered`);
}

async function inTransaction<Result>(
  { url, signal }: LoadOptions,
  work: (client: pg.Client) => Promise<Result>,
): Promise<Result> {
  signal.throwIfAborted();
  const client = new VaultClient({ connectionString: url, application_name: 'vault restore' });
  client.on('error', () => {});
  await client.connect();
  try {
    await client.query('begin');
    await client.query('set local idle_in_transaction_session_timeout = 0; set local statement_timeout = 0');
    await client.query('set local synchronous_commit = on');
    const result = await work(client);
    await client.query('commit');
    return result;
  } finally {
    // Ending the session rolls back what is not committed.
    await client.end().catch(() => undefined);
  }
}
