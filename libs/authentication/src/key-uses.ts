import { errorFields, type Logger } from '@token-vault/observability';
import type { Pool } from './rows.ts';

/**
 * `used_at` is the beginning of the hour of the last use. No event holds it, so a rebuild of read models cannot restore it. No decision
 * depends on it. A row ends with the keys of its tenant. Ids rise from 1 without gaps; a released migration never changes.
 */
export const authenticationMigrations: readonly {
  readonly id: number;
  readonly name: string;
  readonly sql: string;
}[] = [
  {
    id: 1,
    name: 'uses of keys',
    sql: `
create schema authentication;

create table authentication.key_use (
  key_hash text collate "C" primary key,
  tenant_id uuid not null references key_ring.tenant_index_key on delete cascade,
  used_at timestamptz not null
) with (fillfactor = 70);
create index key_use_by_tenant on authentication.key_use (tenant_id);
`,
  },
];

export interface KeyUses {
  /** Notes that the key of an application or of a proxy is in use. Writes nothing itself. */
  note(tenantId: string, keyHash: string, now: Date): void;
  /** Writes the uses that are noted and not written yet. */
  close(): Promise<void>;
}

export interface KeyUsesOptions {
  /** A pool of the primary. */
  readonly pool: Pool;
  readonly logger: Logger;
  /** From the first use of a key in an hour to its write; 1,000 by default. */
  readonly delayMs?: number;
}

interface Use {
  readonly tenantId: string;
  readonly usedAt: Date;
}

const hourMs = 60 * 60 * 1000;
const retryMs = 10_000;

/** Several processes may use a key: the later hour stays. A tenant that is gone has no keys, so it gets no row. */
const write = {
  name: 'key-uses',
  text: `insert into authentication.key_use as u (key_hash, tenant_id, used_at)
    select n.key_hash, t.tenant_id, n.used_at
      from unnest($1::text[], $2::uuid[], $3::timestamptz[]) as n (key_hash, tenant_id, used_at)
      join key_ring.tenant_index_key t using (tenant_id)
     order by n.key_hash
    on conflict (key_hash) do update set used_at = excluded.used_at where u.used_at < excluded.used_at`,
};

/** Collects the keys that this process sees, and writes each at most once an hour. */
class CollectedUses implements KeyUses {
  readonly #options: KeyUsesOptions;
  #hour = 0;
  /** Noted in this hour. */
  readonly #known = new Set<string>();
  #unwritten = new Map<string, Use>();
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(options: KeyUsesOptions) {
    this.#options = options;
  }

  note(tenantId: string, keyHash: string, now: Date): void {
    const hour = Math.floor(now.getTime() / hourMs) * hourMs;
    if (hour !== this.#hour) {
      this.#hour = hour;
      this.#known.clear();
    }
    if (this.#known.has(keyHash)) return;
    this.#known.add(keyHash);
    this.#unwritten.set(keyHash, { tenantId, usedAt: new Date(hour) });
    this.#writeIn(this.#options.delayMs ?? 1_000);
  }

  #writeIn(delayMs: number): void {
    if (this.#isClosed) return;
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#writing = this.#write();
    }, delayMs).unref();
  }

  async #write(): Promise<void> {
    const uses = [...this.#unwritten];
    if (uses.length === 0) return;
    this.#unwritten = new Map();
    const values = [
      uses.map(([hash]) => hash),
      uses.map(([, { tenantId }]) => tenantId),
      uses.map(([, { usedAt }]) => usedAt),
    ];
    try {
      await this.#options.pool.query({ ...write, values });
    } catch (error) {
      this.#options.logger.warn(errorFields(error), 'the uses of keys were not written');
      this.#unwritten = new Map([...uses, ...this.#unwritten]);
      this.#writeIn(retryMs);
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#writing;
    await this.#write();
  }
}

export const createKeyUses = (options: KeyUsesOptions): KeyUses => new CollectedUses(options);

const lastUses = {
  name: 'last-uses-of-keys',
  text: 'select key_hash, used_at from authentication.key_use where key_hash = any($1)',
};

/** The beginning of the hour in which each key was used last, by the hash of the key. */
export async function findLastUses(
  pool: Pool,
  hashes: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  if (hashes.length === 0) return new Map();
  const { rows } = await pool.query<{ key_hash: string; used_at: Date }>({ ...lastUses, values: [hashes] });
  return new Map(rows.map(({ key_hash: hash, used_at: at }) => [hash, at.toISOString()]));
}
