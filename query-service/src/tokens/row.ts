import type { SealedValue } from '@token-vault/crypto';
import { sql } from '../sql.ts';

/** A row of the read model `tokens`. `mask`, `metadata` and `search_indexes` are JSON texts. */
export interface TokenRow {
  readonly tenant_id: string;
  readonly id: string;
  readonly type: string;
  /** Without a card's cvc. */
  readonly data: SealedValue;
  readonly cvc: SealedValue | null;
  readonly cvc_expires_at: Date | null;
  readonly mask: string | null;
  readonly container: string;
  readonly metadata: string | null;
  readonly search_indexes: string | null;
  readonly fingerprint: string | null;
  readonly fingerprint_expression: string | null;
  readonly expires_at: Date | null;
  /** As the author wrote it, with the offset. */
  readonly expires_at_text: string | null;
  readonly created_by: string | null;
  readonly created_at: Date;
  readonly modified_by: string | null;
  readonly modified_at: Date | null;
  readonly signature: string | null;
}

/**
 * The columns are named one by one: `select *` breaks prepared statements when a rebuilt projection is swapped in.
 */
export const tokenColumns = sql`t.tenant_id, t.id, t.type, t.data, t.cvc, t.cvc_expires_at, t.mask, t.container, t.metadata,
  t.search_indexes, t.fingerprint, t.fingerprint_expression, t.expires_at, t.expires_at_text,
  t.created_by, t.created_at, t.modified_by, t.modified_at, t.signature`;

/** A token is absent from the instant of its expiry, also before the sweeper has ended it (rules.md §3). */
export const isExpired = (row: { readonly expires_at: Date | null }, now: Date): boolean =>
  row.expires_at !== null && row.expires_at <= now;
