import { entityTypeOfToken, isUuid, type EntityType, type FoundEntity } from '@token-vault/contracts';
import type { FindEntity } from '@token-vault/operations';
import type { Pool } from 'pg';

const lookups: Readonly<Partial<Record<EntityType, string>>> = {
  application:
    'select id::text, null as token_type from rm_applications.application where tenant_id = $1 and id = $2',
  reactor: 'select id::text, null as token_type from rm_reactors.reactor where tenant_id = $1 and id = $2',
  proxy: 'select id::text, null as token_type from rm_proxies.proxy where tenant_id = $1 and id = $2',
  token: 'select id, type as token_type from rm_tokens.token where tenant_id = $1 and id = $2',
};

interface FoundRow {
  id: string;
  token_type: string | null;
}

/** Finds in the read models the entity that a refused request names. */
export function createEntityFinder(pool: Pick<Pool, 'query'>): FindEntity {
  return async (tenantId, type, id): Promise<FoundEntity | undefined> => {
    const text = lookups[type];
    if (text === undefined || (type !== 'token' && !isUuid(id))) return undefined;
    const query = { name: `find-${type}`, text, values: [tenantId, id] };
    const [row] = (await pool.query<FoundRow>(query)).rows;
    return row && { type: row.token_type === null ? type : entityTypeOfToken(row.token_type), id: row.id };
  };
}
