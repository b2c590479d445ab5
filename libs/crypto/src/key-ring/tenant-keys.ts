import { randomBytes } from 'node:crypto';
import type { Pool } from 'pg';
import { keyLength } from '../aead.ts';
import { TenantKeysMissingError } from '../errors.ts';
import { createTenantHashes, type AlterationObserver, type TenantHashes } from '../tenant-hashes.ts';
import type { Clock } from './clock.ts';
import { unwrapIndexKey, wrapIndexKey } from './index-key.ts';
import { keyBinding } from './key-binding.ts';
import type { RootKeySet } from './root-key-set.ts';
import { deriveTenantKey, type TenantKey } from './tenant-key.ts';

export interface TenantKeyset {
  /** The highest version, which wraps new data keys. */
  readonly current: TenantKey;
  readonly versions: ReadonlyMap<number, TenantKey>;
  readonly hashes: TenantHashes;
}

interface CacheEntry {
  readonly loadedAtMs: number;
  readonly keyset: Promise<TenantKeyset>;
  /**
   * A counter that grows with each look-up of any tenant. Moving an entry to the end of the map at each look-up would make garbage in the
   * old generation (ADR 13).
   */
  lastUse: number;
}

export interface TenantKeysOptions {
  readonly pool: Pool;
  readonly rootKeys: RootKeySet;
  readonly clock: Clock;
  /** Maximum number of tenants in memory. */
  readonly maxTenants: number;
  /** How long an unwrapped key is used before the stored key is read again. */
  readonly timeToLiveMs: number;
  readonly onLookup?: ((outcome: 'held' | 'loaded') => void) | undefined;
  readonly onAltered?: AlterationObserver | undefined;
}

/**
 * The unwrapped keys of tenants in use. If another replica destroys or rotates a tenant, its old keys may stay here until their time is
 * over. That is harmless: every use of a data key, old or new, is checked against the stored tenant key.
 */
export class TenantKeys {
  readonly #options: TenantKeysOptions;
  readonly #entries = new Map<string, CacheEntry>();
  #uses = 0;

  constructor(options: TenantKeysOptions) {
    this.#options = options;
  }

  /** @throws TenantKeysMissingError */
  get(tenantId: string): Promise<TenantKeyset> {
    const { clock, timeToLiveMs } = this.#options;
    const nowMs = clock.now().getTime();
    const entry = this.#entries.get(tenantId);
    if (!entry) return this.reload(tenantId);
    const ageMs = nowMs - entry.loadedAtMs;
    if (ageMs < 0 || ageMs >= timeToLiveMs) return this.reload(tenantId);
    entry.lastUse = ++this.#uses;
    this.#options.onLookup?.('held');
    return entry.keyset;
  }

  /** Reads the stored keys again, e.g. because a value names a version that is not in memory. */
  reload(tenantId: string): Promise<TenantKeyset> {
    const { clock, maxTenants } = this.#options;
    this.#options.onLookup?.('loaded');
    const keyset = this.#load(tenantId);
    const entry = { loadedAtMs: clock.now().getTime(), keyset, lastUse: ++this.#uses };
    this.#entries.set(tenantId, entry);
    keyset.catch(() => {
      if (this.#entries.get(tenantId) === entry) this.#entries.delete(tenantId);
    });
    if (this.#entries.size > maxTenants) this.forget(this.#leastRecentlyUsed());
    return keyset;
  }

  #leastRecentlyUsed(): string {
    let [found, first] = ['', Infinity];
    for (const [tenantId, { lastUse }] of this.#entries)
      if (lastUse < first) [found, first] = [tenantId, lastUse];
    return found;
  }

  forget(tenantId: string): void {
    this.#entries.delete(tenantId);
  }

  async #load(tenantId: string): Promise<TenantKeyset> {
    const { pool, rootKeys, onAltered } = this.#options;
    // One statement, so that a rotation meanwhile cannot show an index key without its tenant key.
    const { rows } = await pool.query<TenantKeyRow>({
      name: 'key_ring_tenant_keys',
      text: `select t.version, t.root_key_id, t.wrapped, i.tenant_key_version, i.wrapped as index_wrapped
             from key_ring.tenant_key t join key_ring.tenant_index_key i using (tenant_id)
             where tenant_id = $1 order by t.version`,
      values: [tenantId],
    });
    const versions = new Map<number, TenantKey>();
    for (const row of rows) {
      const binding = keyBinding.tenantKey(tenantId, row.version, row.root_key_id);
      const rootKey = await rootKeys.get(row.root_key_id);
      const bytes = await rootKey.unwrap(row.wrapped, binding);
      versions.set(row.version, deriveTenantKey(tenantId, row.version, bytes));
      bytes.fill(0);
    }
    const last = rows.at(-1);
    const current = last && versions.get(last.version);
    const indexKeyOwner = last && versions.get(last.tenant_key_version);
    if (!current || !indexKeyOwner) throw new TenantKeysMissingError(tenantId);
    const { indexKey, form } = unwrapIndexKey(indexKeyOwner, last.index_wrapped);
    const hashes = createTenantHashes(indexKey, {
      acceptsUnsigned: form === 'accepts-unsigned',
      onAltered: (kind) => onAltered?.(kind, tenantId),
    });
    return { current, versions, hashes };
  }
}

interface TenantKeyRow {
  readonly version: number;
  readonly root_key_id: string;
  readonly wrapped: Buffer;
  readonly tenant_key_version: number;
  readonly index_wrapped: Buffer;
}

const firstVersion = 1;

/** `for key share` blocks the last step of a root-key rotation, which locks the row `for update`. */
const createStatement = `
with root as materialized (
  select root_key_id from key_ring.root_key where root_key_id = $2 and retired_at is null for key share
), index_key as (
  insert into key_ring.tenant_index_key (tenant_id, tenant_key_version, wrapped, created_at)
  select $1, $3, $5, $6 from root
  where not exists (select from key_ring.destroyed_tenant where tenant_id = $1)
  on conflict (tenant_id) do nothing
  returning tenant_id
)
insert into key_ring.tenant_key (tenant_id, version, root_key_id, wrapped, created_at)
select $1, $3, $2, $4, $6 from index_key`;

/**
 * Creates the keys of a tenant; does nothing when the tenant has keys.
 * @throws TenantKeysMissingError when the tenant was destroyed.
 */
export async function createTenantKeys(
  options: Pick<TenantKeysOptions, 'pool' | 'rootKeys' | 'clock'>,
  tenantId: string,
): Promise<void> {
  const { pool, rootKeys, clock } = options;
  // A further round is for a root key that was retired between its choice and its use.
  for (let round = 0; round < 3; round += 1) {
    const rootKey = await rootKeys.current(pool);
    const bytes = randomBytes(keyLength);
    const indexKey = randomBytes(keyLength);
    const tenantKey = deriveTenantKey(tenantId, firstVersion, bytes);
    const wrapped = await rootKey.wrap(bytes, keyBinding.tenantKey(tenantId, firstVersion, rootKey.id));
    const indexWrapped = wrapIndexKey(tenantKey, indexKey, 'all-signed');
    bytes.fill(0);
    indexKey.fill(0);
    await pool.query(createStatement, [
      tenantId,
      rootKey.id,
      firstVersion,
      wrapped,
      indexWrapped,
      clock.now(),
    ]);
    const { rows } = await pool.query(`select from key_ring.tenant_index_key where tenant_id = $1`, [
      tenantId,
    ]);
    if (rows.length > 0) return;
  }
  throw new TenantKeysMissingError(tenantId);
}
