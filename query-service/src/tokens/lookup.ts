import { createBatcher } from '@token-vault/batching';
import type { Pool } from 'pg';
import { t, tokenColumns, type TokenRow } from './row.ts';

interface Wanted {
  readonly tenantId: string;
  readonly id: string;
}

// `limit 1` makes the planner use one index lookup for each wanted token. A plain join may become a scan while the
// table is small.
const columns = tokenColumns.join(', ');
const text = `
select w.ordinal::integer, ${columns}
from unnest($1::uuid[], $2::text[]) with ordinality as w (tenant_id, id, ordinal)
cross join lateral (
  select ${columns} from ${t.source} where ${t.tenant_id} = w.tenant_id and ${t.id} = w.id limit 1
) t`;

const maxTokensOfBatch = 200;

export type FindToken = (tenantId: string, id: string) => Promise<TokenRow | undefined>;

/** Finds tokens by tenant and id. The concurrent calls of a process share one round trip and one prepared statement. */
export function createTokenLookup(pool: Pool): FindToken {
  const batcher = createBatcher<Wanted, TokenRow | undefined>({
    maxItems: maxTokensOfBatch,
    concurrency: 2,
    run: async (wanted) => {
      const { rows } = await pool.query<TokenRow & { readonly ordinal: number }>({
        name: 'find_tokens',
        text,
        values: [wanted.map(({ tenantId }) => tenantId), wanted.map(({ id }) => id)],
      });
      const found: (TokenRow | undefined)[] = wanted.map(() => undefined);
      for (const row of rows) found[row.ordinal - 1] = row;
      return found;
    },
  });
  return (tenantId, id) => batcher.add({ tenantId, id });
}
