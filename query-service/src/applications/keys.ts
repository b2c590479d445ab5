import { EntitiesRead, NotFoundError, type ApplicationKey } from '@token-vault/contracts';
import type { HandlersOf, RequestContext } from '@token-vault/operations';
import { findKeys, type KeysRow } from './queries.ts';
import type { ApplicationDependencies } from './routes.ts';

/** Live keys, the main one first, the others by age. An expired key is absent from the instant of its expiry. */
function liveKeys(row: KeysRow, now: Date): ApplicationKey[] {
  const main = { id: row.key_id ?? row.id, created_at: row.key_created_at.toISOString() };
  const others = row.keys
    .map(({ id, created_at, expires_at }) => ({ id, created_at, expires_at }))
    .filter(({ expires_at: end }) => end === undefined || Date.parse(end) > now.getTime());
  return row.has_main ? [main, ...others] : others;
}

export function createKeyHandlers({
  pool,
  audit,
}: Pick<ApplicationDependencies, 'pool' | 'audit'>): Pick<
  HandlersOf<'query'>,
  'listApplicationKeys' | 'getApplicationKey'
> {
  async function keysOf(id: string, context: RequestContext): Promise<ApplicationKey[]> {
    const row = await findKeys(pool, context.principal.tenant.id, id, context.now);
    if (!row) throw new NotFoundError('Application');
    await audit.record(context, EntitiesRead, {
      entity_type: 'application',
      operation: 'read',
      entity_ids: [row.id],
    });
    return liveKeys(row, context.now);
  }

  return {
    listApplicationKeys: async ({ params }, context) => ({ body: await keysOf(params.id, context) }),
    async getApplicationKey({ params }, context) {
      const key = (await keysOf(params.id, context)).find(({ id }) => id === params.key_id);
      if (!key) throw new NotFoundError('Key');
      return { body: key };
    },
  };
}
