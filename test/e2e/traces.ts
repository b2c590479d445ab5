import { eventRegistry } from '@token-vault/contracts';
import { startPosition } from '@token-vault/event-store';
import { createEventStoreDbEventStore } from '@token-vault/event-store/eventstoredb';
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import type pg from 'pg';

/** One form in which a number could be stored. */
export interface Trace {
  readonly form: string;
  readonly bytes: Buffer;
}

/**
 * The forms of a leaked `number` (digits): text in common encodings, packed two digits a byte, and unkeyed hashes,
 * which can be reversed by trying the few billion card numbers of a known BIN.
 */
export function tracesOf(number: string): Trace[] {
  const groups = number.match(/.{1,4}/g) ?? [];
  const traces = [
    ...['', ' ', '-', '.', '_'].map((separator) => text(`joined by "${separator}"`, groups.join(separator))),
    text('reversed', [...number].reverse().join('')),
    { form: 'UTF-16', bytes: Buffer.from(number, 'utf16le') },
    { form: 'packed digits', bytes: Buffer.from(number, 'hex') },
    text('hex', Buffer.from(number).toString('hex')),
    text('hex of UTF-16', Buffer.from(number, 'utf16le').toString('hex')),
    ...[0, 1, 2].map((offset) => text(`base64 at offset ${offset}`, base64Within(number, offset))),
  ];
  for (const algorithm of ['md5', 'sha1', 'sha256', 'sha512']) {
    const digest = createHash(algorithm).update(number).digest();
    traces.push({ form: algorithm, bytes: digest.subarray(0, 16) });
    for (const encoding of ['hex', 'base64', 'base64url'] as const) {
      traces.push(text(`${algorithm} in ${encoding}`, digest.toString(encoding).slice(0, 20)));
    }
  }
  return traces;
}

const text = (form: string, value: string): Trace => ({ form, bytes: Buffer.from(value) });

/** The characters that every base64 text of the number at this offset (in groups of three bytes) has in common. */
function base64Within(number: string, offset: number): string {
  const encoded = Buffer.from(' '.repeat(offset) + number).toString('base64');
  const bits = Math.ceil((offset * 8) / 6);
  return encoded.slice(bits, Math.floor(((offset + number.length) * 8) / 6));
}

/** The forms found in these bytes. */
export function findTraces(traces: readonly Trace[], where: Buffer): string[] {
  return traces.filter(({ bytes }) => where.includes(bytes)).map(({ form }) => form);
}

/**
 * Searches every row of every table, the system catalogs included (`pg_statistic` copies values). Each value is
 * searched as text, and `bytea` as its bytes. Gives `schema.table: form`.
 */
export async function searchTables(pool: pg.Pool, traces: readonly Trace[]): Promise<string[]> {
  const found: string[] = [];
  for (const [name, rows] of await dumpTables(pool)) {
    // `bytea` is printed as hex, in which a trace looks different.
    const all = [
      ...traces,
      ...traces.map(({ form, bytes }) => text(`${form} as bytea`, bytes.toString('hex'))),
    ];
    for (const form of findTraces(all, Buffer.from(rows))) found.push(`${name}: ${form}`);
  }
  return found;
}

/** Searches every event of an EventStoreDB. The result has the form of `searchTables` for a log in Postgres. */
export async function searchEventStore(url: string, traces: readonly Trace[]): Promise<string[]> {
  const store = createEventStoreDbEventStore({ registry: eventRegistry, connectionString: url });
  const lines: string[] = [];
  for await (const event of store.readAll(startPosition)) lines.push(JSON.stringify(event));
  await store.close();
  return findTraces(traces, Buffer.from(lines.join('\n'))).map((form) => `event_store.event: ${form}`);
}

/** Every table as lines of text. */
export async function dumpTables(pool: pg.Pool): Promise<Map<string, string>> {
  const { rows: tables } = await pool.query<{ name: string }>(
    `select format('%I.%I', n.nspname, c.relname) as name
     from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where c.relkind in ('r', 'p', 'm') and n.nspname <> 'pg_toast'`,
  );
  const dump = new Map<string, string>();
  for (const { name } of tables) {
    const { rows } = await pool.query<{ row: string }>(`select t::text as row from ${name} t`);
    dump.set(name, rows.map(({ row }) => row).join('\n'));
  }
  return dump;
}

/** Searches the raw bytes of every file below `directory`: heap, indexes, WAL, statistics. Gives `file: form`. */
export async function searchFiles(directory: string, traces: readonly Trace[]): Promise<string[]> {
  const found: string[] = [];
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const file = path.join(entry.parentPath, entry.name);
    for (const form of findTraces(traces, await readFile(file))) {
      found.push(`${path.relative(directory, file)}: ${form}`);
    }
  }
  return found;
}
