import type { Pool } from 'pg';
import { t, type TokenRow } from './row.ts';

type ShownRow = Pick<TokenRow, 'id' | 'signature'>;

// As in `queries.ts`: one index lookup for each id.
const text = `select ${t.id}, ${t.signature} from unnest($2::text[]) as w (wanted)
  cross join lateral (
    select ${t.id}, ${t.signature} from ${t.source} where ${t.tenant_id} = $1 and ${t.id} = w.wanted limit 1
  ) t`;

/**
 * Whether a token has ended, was moved or was changed since its row was read. The signature covers the container, the mask and the data. Asked
 * for an answer that took long: it shows what the caller may see when it leaves (ADR 16). As cheap as the look-up of tokens by id, so it
 * takes no place of `fair-reads.ts`.
 */
export async function areOvertaken(
  pool: Pick<Pool, 'query'>,
  tenantId: string,
  rows: readonly ShownRow[],
): Promise<boolean> {
  if (rows.length === 0) return false;
  const found = await pool.query<ShownRow>({ text, values: [tenantId, rows.map(({ id }) => id)] });
  const now = new Map(found.rows.map(({ id, signature }) => [id, signature]));
  return rows.some(({ id, signature }) => now.get(id) !== signature);
}
