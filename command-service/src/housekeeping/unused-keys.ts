import { aliased, streams } from '@token-vault/contracts';
import type { DestroyedKey, KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import type { Clock } from '@token-vault/operations';
import type { Pool } from 'pg';
import { forEachConcurrently } from './concurrency.ts';

export interface UnusedKeysOptions {
  readonly store: Pick<EventStore, 'readStoredStream'>;
  readonly keyRing: Pick<KeyRing, 'destroyKeys' | 'keysAfter'>;
  /** The pool of the read models' database. */
  readonly pool: Pool;
  readonly clock: Clock;
}

/** Far longer than a command can take: an append that came later would be of a value that nobody can open. */
const oldEnoughMs = 24 * 60 * 60 * 1000;
const pageSize = 1_000;
const atOnce = 8;

const token = aliased('tokens', 'token', 't');
const notShown = `select k.key_id::text as id from unnest($1::uuid[], $2::uuid[], $3::text[]) as k (key_id, tenant_id, token_id)
  where not exists (select from ${token.source} where ${token.tenant_id} = k.tenant_id and ${token.id} = k.token_id
    and starts_with(${token.data}, 'sv1.' || k.key_id || '.'))`;

/**
 * Finds keys of tokens that no event uses: a key is stored before its event, and a crash or a refusal in between leaves it alone. The read
 * model only spares the reading of streams; the token's own stream decides. Each call looks at one page of the key ring, in the order in which
 * keys were made, and begins again after the last old one.
 */
export function createUnusedKeys({ store, keyRing, pool, clock }: UnusedKeysOptions) {
  let after: string | undefined;

  async function isUsed({ keyId, tenantId, entity }: DestroyedKey): Promise<boolean> {
    const sealed = `sv1.${keyId}.`;
    for await (const { data } of store.readStoredStream(streams.token(tenantId, tokenIn(entity))))
      if (data.includes(sealed)) return true;
    return false;
  }

  async function withoutRow(keys: readonly DestroyedKey[]): Promise<readonly DestroyedKey[]> {
    if (keys.length === 0) return [];
    const { rows } = await pool.query<{ id: string }>(notShown, [
      keys.map(({ keyId }) => keyId),
      keys.map(({ tenantId }) => tenantId),
      keys.map(({ entity }) => tokenIn(entity)),
    ]);
    const ids = new Set(rows.map(({ id }) => id));
    return keys.filter(({ keyId }) => ids.has(keyId));
  }

  return {
    /** Destroys the unused keys of the next page. Gives their number. */
    async destroyNext(): Promise<number> {
      const page = await keyRing.keysAfter(after, pageSize);
      const madeBefore = clock.now().getTime() - oldEnoughMs;
      const old = page.filter(({ createdAt }) => createdAt.getTime() < madeBefore);
      let destroyed = 0;
      // A key with an end is destroyed by it.
      const candidates = old.filter(({ entity, destroyAfter }) => isOfToken(entity) && !destroyAfter);
      await forEachConcurrently(await withoutRow(candidates), atOnce, async (key) => {
        if (await isUsed(key)) return;
        const { length } = await keyRing.destroyKeys(key.tenantId, [key.keyId]);
        destroyed += length;
      });
      after = old.length === pageSize ? page.at(-1)?.keyId : undefined;
      return destroyed;
    },
  };
}

const prefix = 'token:';
const isOfToken = (entity: string): boolean => entity.startsWith(prefix);
const tokenIn = (entity: string): string => entity.slice(prefix.length);
