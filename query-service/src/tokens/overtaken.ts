import type { Pool } from 'pg';
import { cvcEndOfRow, isExpired, t, type OpenRow, type TokenRow } from './row.ts';

type SignedRow = Pick<TokenRow, 'id' | 'signature'>;

// As in `queries.ts`: one index lookup for each id.
const text = `select ${t.id}, ${t.signature} from unnest($2::text[]) as w (wanted)
  cross join lateral (
    select ${t.id}, ${t.signature} from ${t.source} where ${t.tenant_id} = $1 and ${t.id} = w.wanted limit 1
  ) t`;

/** A token as it was opened. */
export interface OpenedRow {
  readonly row: OpenRow;
  readonly openedAt: Date;
}

/** Whether the token, or a cvc that was opened, has ended. */
const hasEnded = ({ row, openedAt }: OpenedRow, now: Date): boolean =>
  isExpired(row, now) || cvcEndOfRow(row, openedAt) !== cvcEndOfRow(row, now);

/**
 * The ids of the tokens that have ended, were moved or were changed since their rows were read. The signature covers the container, the mask
 * and the data. The statement costs as much as a look-up of tokens by id, so it does not wait for a place of `fair-reads.ts`.
 */
export async function overtakenOf(
  pool: Pick<Pool, 'query'>,
  tenantId: string,
  opened: readonly OpenedRow[],
  now: Date,
): Promise<string[]> {
  if (opened.length === 0) return [];
  const ids = opened.map(({ row }) => row.id);
  const found = await pool.query<SignedRow>({ text, values: [tenantId, ids] });
  const signatures = new Map(found.rows.map(({ id, signature }) => [id, signature]));
  const isOvertaken = (each: OpenedRow) =>
    signatures.get(each.row.id) !== each.row.signature || hasEnded(each, now);
  return opened.filter(isOvertaken).map(({ row }) => row.id);
}
