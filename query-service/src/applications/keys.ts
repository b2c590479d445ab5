import { findLastUses } from '@token-vault/authentication';
import { EntitiesRead, NotFoundError, type ApplicationKey } from '@token-vault/contracts';
import type { HandlersOf, RequestContext } from '@token-vault/operations';
import { createApplications, type ApplicationRow, type StoredKey } from './queries.ts';
import type { ApplicationDependencies } from './routes.ts';

/** Live keys, the main one first, the others by age. */
function liveKeys(row: ApplicationRow, now: Date): readonly StoredKey[] {
  const { id, key_hash: hash, key_id: keyId, key_created_at: createdAt } = row;
  const main = hash === null ? [] : [{ id: keyId ?? id, hash, created_at: createdAt.toISOString() }];
  return [...main, ...row.keys.filter((key) => isLive(key, now))];
}

/** An expired key is absent from the instant of its expiry. */
export const isLive = ({ expires_at: end }: StoredKey, now: Date): boolean =>
  end === undefined || Date.parse(end) > now.getTime();

/** Keys as they are shown: without their hashes, with their last uses. */
export const presentKeys = (
  keys: readonly StoredKey[],
  lastUses: ReadonlyMap<string, string>,
): ApplicationKey[] =>
  keys.map(({ id, hash, created_at, expires_at }) => ({
    id,
    created_at,
    expires_at,
    last_used_at: lastUses.get(hash),
  }));

export function createKeyHandlers(
  dependencies: ApplicationDependencies,
): Pick<HandlersOf<'query'>, 'listApplicationKeys' | 'getApplicationKey'> {
  const { pool, audit } = dependencies;
  const applications = createApplications(dependencies);

  async function showKeys(id: string, context: RequestContext): Promise<ApplicationKey[]> {
    const row = await applications.find({ tenantId: context.principal.tenant.id, now: context.now }, id);
    if (!row) throw new NotFoundError('Application');
    await audit.record(context, EntitiesRead, {
      entity_type: 'application',
      operation: 'read',
      entity_ids: [row.id],
    });
    const keys = liveKeys(row, context.now);
    const lastUses = await findLastUses(
      pool,
      keys.map(({ hash }) => hash),
    );
    return presentKeys(keys, lastUses);
  }

  return {
    listApplicationKeys: async ({ params }, context) => ({ body: await showKeys(params.id, context) }),
    async getApplicationKey({ params }, context) {
      const key = (await showKeys(params.id, context)).find(({ id }) => id === params.key_id);
      if (!key) throw new NotFoundError('Key');
      return { body: key };
    },
  };
}
