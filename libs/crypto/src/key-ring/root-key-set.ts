import type { Pool, PoolClient } from 'pg';
import { SealBrokenError, WrongRootKeyError } from '../errors.ts';
import type { RootKeyProvider } from '../root-keys/port.ts';
import type { Clock } from './clock.ts';
import { keyBinding } from './key-binding.ts';
import { inTransaction } from './transaction.ts';

const checkText = Buffer.from('token-vault root key check value');

interface RootKeyRow {
  readonly root_key_id: string;
  readonly check_value: Buffer;
  readonly retired_at: Date | null;
}

/** Whether an earlier start stored a root key's check value. Then a missing root key must not be replaced by a new one. */
export async function isKeyRingInitialised(pool: Pool): Promise<boolean> {
  const { rows } = await pool.query<{ initialised: boolean }>(
    `select exists (select from key_ring.root_key) as initialised`,
  );
  return rows[0]?.initialised === true;
}

/** Ids of the root keys that may wrap tenant keys; more than one while a rotation is not complete. */
export async function rootKeysInUse(pool: Pool): Promise<string[]> {
  const { rows } = await pool.query<{ root_key_id: string }>(
    `select root_key_id from key_ring.root_key where retired_at is null order by created_at`,
  );
  return rows.map((row) => row.root_key_id);
}

/** Looks for a root key that this process was not started with; undefined when there is no key of this id. */
export type FindRootKey = (rootKeyId: string) => Promise<RootKeyProvider | undefined>;

/** The root keys that this process holds. The first one is used for a new vault; the others are for a rotation. */
export class RootKeySet {
  readonly #providers: Map<string, RootKeyProvider>;
  readonly #first: RootKeyProvider;
  readonly #find: FindRootKey;

  constructor(
    first: RootKeyProvider,
    others: readonly RootKeyProvider[],
    find: FindRootKey = async () => undefined,
  ) {
    this.#first = first;
    this.#find = find;
    this.#providers = new Map([...others, first].map((provider) => [provider.id, provider]));
  }

  /** From now on this process can use the key too. */
  hold(provider: RootKeyProvider): void {
    this.#providers.set(provider.id, provider);
  }

  /** Returns the key if this process holds it or finds it now; a found key is held from then on. @throws WrongRootKeyError otherwise */
  async get(rootKeyId: string): Promise<RootKeyProvider> {
    const held = this.#providers.get(rootKeyId);
    if (held) return held;
    const found = await this.#find(rootKeyId);
    if (found?.id !== rootKeyId) throw wrongRootKey(rootKeyId, [...this.#providers.keys()]);
    this.hold(found);
    return found;
  }

  /**
   * Checks the held keys against the stored check values; on the first start stores the check values.
   * @throws WrongRootKeyError when a root key in use is not held, is retired, or differs from its check value.
   */
  async checkOrInitialise(pool: Pool, clock: Clock): Promise<void> {
    const rows = await inTransaction(pool, async (client) => {
      // Two services may start on an empty key ring at once: one initialises it, the other checks it.
      await client.query(`lock table key_ring.root_key in share row exclusive mode`);
      const stored = await readRootKeys(client);
      if (stored.length > 0) return stored;
      await addRootKey(client, this.#first, clock);
      return readRootKeys(client);
    });
    for (const row of rows) {
      if (row.retired_at) continue;
      await verify(await this.get(row.root_key_id), row);
    }
  }

  /** The newest root key in use, which wraps new tenant keys. @throws WrongRootKeyError when not held. */
  async current(pool: Pool): Promise<RootKeyProvider> {
    const { rows } = await pool.query<{ root_key_id: string }>(
      `select root_key_id from key_ring.root_key where retired_at is null order by created_at desc, root_key_id`,
    );
    const held = rows.find((row) => this.#providers.has(row.root_key_id));
    return this.get(held?.root_key_id ?? rows[0]?.root_key_id ?? 'none');
  }
}

async function readRootKeys(client: PoolClient): Promise<RootKeyRow[]> {
  const { rows } = await client.query<RootKeyRow>(
    `select root_key_id, check_value, retired_at from key_ring.root_key order by created_at`,
  );
  return rows;
}

/** Stores the check value of a new root key. */
export async function addRootKey(client: PoolClient, provider: RootKeyProvider, clock: Clock): Promise<void> {
  const checkValue = await provider.wrap(checkText, keyBinding.rootCheck(provider.id));
  await client.query(
    `insert into key_ring.root_key (root_key_id, check_value, created_at) values ($1, $2, $3)
     on conflict (root_key_id) do nothing`,
    [provider.id, checkValue, clock.now()],
  );
}

async function verify(provider: RootKeyProvider, row: RootKeyRow): Promise<void> {
  let opened: Buffer;
  try {
    opened = await provider.unwrap(row.check_value, keyBinding.rootCheck(row.root_key_id));
  } catch (error) {
    if (!(error instanceof SealBrokenError)) throw error;
    throw new WrongRootKeyError(
      `root key ${provider.id} does not open this vault's keys: it is another key of the same id`,
      {
        cause: error,
      },
    );
  }
  if (!opened.equals(checkText))
    throw new WrongRootKeyError(`root key ${provider.id} opens a check value that this vault did not write`);
}

function wrongRootKey(needed: string, held: readonly string[]): WrongRootKeyError {
  return new WrongRootKeyError(
    `wrong root key: this vault's keys are wrapped by ${needed}, but the root key given is ${held.join(', ')}; ` +
      `start with the root key used before (VAULT_ROOT_KEY, the root key file, or transit)`,
  );
}
