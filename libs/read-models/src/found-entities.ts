import {
  aliased,
  entityTypeOfToken,
  isUuid,
  type EntityType,
  type FoundEntity,
} from '@token-vault/contracts';
import type { FindEntity } from '@token-vault/operations';
import type { Pool } from 'pg';

const a = aliased('applications', 'application', 'a');
const p = aliased('proxies', 'proxy', 'p');
const r = aliased('reactors', 'reactor', 'r');
const t = aliased('tokens', 'token', 't');

const lookups: Readonly<Partial<Record<EntityType, string>>> = {
  application: `select ${a.id}::text, null as token_type from ${a.source} where ${a.tenant_id} = $1 and ${a.id} = $2`,
  reactor: `select ${r.id}::text, null as token_type from ${r.source} where ${r.tenant_id} = $1 and ${r.id} = $2`,
  proxy: `select ${p.id}::text, null as token_type from ${p.source} where ${p.tenant_id} = $1 and ${p.id} = $2`,
  token: `select ${t.id}, ${t.type} as token_type from ${t.source} where ${t.tenant_id} = $1 and ${t.id} = $2`,
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
