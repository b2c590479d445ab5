import { createBatcher } from '@token-vault/batching';
import type { Pool } from 'pg';
import { bytesOfRow, foundColumnsBy, type FoundRow } from './large-rows.ts';
import { t, tokenColumns } from './row.ts';

interface Wanted {
  readonly tenantId: string;
  readonly id: string;
}

// `limit 1` makes the planner use one index lookup for each wanted token. A plain join may become a scan while the
// table is small. The size is asked for once a row: it is a measurable part of a statement of small tokens.
const text = `
select w.ordinal::integer, ${foundColumnsBy('bytes').join(', ')}
from unnest($1::uuid[], $2::text[]) with ordinality as w (tenant_id, id, ordinal)
cross join lateral (
  select ${tokenColumns.join(', ')}, ${bytesOfRow} as bytes from ${t.source}
  where ${t.tenant_id} = w.tenant_id and ${t.id} = w.id limit 1
) t`;

const maxTokensOfBatch = 200;

export type FindToken = (tenantId: string, id: string) => Promise<FoundRow | undefined>;

/** Finds tokens by tenant and id, large ones without their long columns. The concurrent calls of a process share one round trip and one prepared statement. */
export function createTokenLookup(pool: Pool): FindToken {
  const batcher = createBatcher<Wanted, FoundRow | undefined>({
    maxItems: maxTokensOfBatch,
    concurrency: 2,
    run: async (wanted) => {
      const { rows } = await pool.query<FoundRow & { readonly ordinal: number }>({
        name: 'find_tokens',
        text,
        values: [wanted.map(({ tenantId }) => tenantId), wanted.map(({ id }) => id)],
      });
      const found: (FoundRow | undefined)[] = wanted.map(() => undefined);
      for (const row of rows) found[row.ordinal - 1] = row;
      return found;
    },
  });
  return (tenantId, id) => batcher.add({ tenantId, id });
}
