import { createKeyRing, fileRootKey, isSealedValue, TenantKeysMissingError } from '@token-vault/crypto';
import { startPosition, type EventStore } from '@token-vault/event-store';
import { manualClock } from '@token-vault/test-support';
import { createDecipheriv } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import type pg from 'pg';
import { dumpTables } from '../e2e/traces.ts';

/** The findings of an attacker who has the whole vault: the database, the files and the root key. */
export interface Attack {
  readonly keys: number;
  /** The number of data key rows that cannot be unwrapped any more. */
  readonly uselessKeys: number;
  readonly ciphertexts: number;
  /** Each canary that was decrypted, with the key and the place: `name: purpose of entity opens what is in place`. */
  readonly found: readonly string[];
  /** The names of these canaries. */
  readonly canaries: ReadonlySet<string>;
}

/** What the attacker has. The log may be outside of the database. */
export interface Loot {
  readonly pool: pg.Pool;
  readonly dataDir: string;
  readonly log: EventStore;
}

interface FoundKey {
  readonly name: string;
  readonly bytes: Buffer;
}

interface KeyRow {
  readonly id: string;
  readonly tenant_id: string;
  readonly entity: string;
  readonly purpose: string;
}

/** All data keys, also those past their time: an attacker is not bound by the clock. */
async function unwrapKeys({ pool, dataDir }: Loot): Promise<{ keys: FoundKey[]; useless: number }> {
  const keyRing = await createKeyRing({
    pool,
    rootKey: await fileRootKey(path.join(dataDir, 'root.key')),
    clock: manualClock('2000-01-01T00:00:00.000Z'),
    durability: 'own',
  });
  const { rows } = await pool.query<KeyRow>('select id, tenant_id, entity, purpose from key_ring.data_key');
  const keys: FoundKey[] = [];
  for (const { id, tenant_id: tenantId, entity, purpose } of rows) {
    try {
      const key = await keyRing.openKey(tenantId, id);
      keys.push({ name: `${purpose} of ${entity}`, bytes: Buffer.from(key.exposeBytes()) });
    } catch (error) {
      const isUseless =
        error instanceof TenantKeysMissingError || (error as { code?: string }).code === 'key_destroyed';
      if (!isUseless) throw error;
    }
  }
  return { keys, useless: rows.length - keys.length };
}

const sealedValue = /sv1\.[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}\.[\w-]{40,}/g;

/**
 * The distinct ciphertexts, with the first place of each: complete in the tables, in the files also cut off or
 * deleted long ago.
 */
async function collectCiphertexts({ pool, dataDir, log }: Loot): Promise<Map<string, string>> {
  const places = new Map<string, string>();
  const collect = (text: string, place: string) => {
    for (const [found] of text.matchAll(sealedValue))
      if (isSealedValue(found) && !places.has(found)) places.set(found, place);
  };
  for (const [table, rows] of await dumpTables(pool)) collect(rows, table);
  for await (const { data, stream } of log.readAll(startPosition)) collect(JSON.stringify(data), stream);
  await pool.query('checkpoint');
  for (const entry of await readdir(dataDir, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const file = path.join(entry.parentPath, entry.name);
    // A file may be removed during the search: a WAL segment, a temporary file of a sort.
    const bytes = await readFile(file).catch(() => Buffer.alloc(0));
    collect(bytes.toString('latin1'), path.relative(dataDir, file));
  }
  return places;
}

/**
 * Ignores whether key and ciphertext belong together, the tag and the AAD: GCM without its tag is counter mode, which
 * decrypts with any key.
 */
function decryptUnchecked(key: Buffer, encrypted: Buffer): Buffer {
  const decipher = createDecipheriv('aes-256-gcm', key, encrypted.subarray(0, 12), { authTagLength: 16 });
  return decipher.update(encrypted.subarray(12));
}

/** Tries every key on every ciphertext. */
export async function attack(loot: Loot, canaries: Readonly<Record<string, string>>): Promise<Attack> {
  const { keys, useless } = await unwrapKeys(loot);
  const ciphertexts = await collectCiphertexts(loot);
  const found: string[] = [];
  const names = new Set<string>();
  for (const [ciphertext, place] of ciphertexts) {
    const encrypted = Buffer.from(ciphertext.split('.')[2] ?? '', 'base64url');
    for (const key of keys) {
      const plaintext = decryptUnchecked(key.bytes, encrypted);
      for (const [name, canary] of Object.entries(canaries)) {
        if (!plaintext.includes(canary)) continue;
        names.add(name);
        found.push(`${name}: ${key.name} opens what is in ${place}`);
      }
    }
  }
  return { keys: keys.length, uselessKeys: useless, ciphertexts: ciphertexts.size, found, canaries: names };
}
