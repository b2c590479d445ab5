import { aliased, type Json, type TokenType, type Transform } from '@token-vault/contracts';
import type { SealedValue } from '@token-vault/crypto';
import { cvcEndOf, shownCvcEndOf, type TokenDetails } from '@token-vault/tokens';

/** A row of the read model `tokens`. `mask`, `metadata` and `search_indexes` are JSON texts. */
export interface TokenRow {
  readonly tenant_id: string;
  readonly id: string;
  readonly type: TokenType;
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
  readonly created_by: string;
  readonly created_at: Date;
  readonly modified_by: string | null;
  readonly modified_at: Date | null;
  /** JSON text; only a part of what is signed. */
  readonly set_without_sight: string | null;
  readonly signature: string | null;
}

/** The row of an open token. Its data is kept only when it is short: a page keeps its rows until the answer leaves. */
export interface OpenRow extends Omit<TokenRow, 'data'> {
  readonly data?: SealedValue;
  /** The length of the data that is not kept. */
  readonly data_length?: number;
}

export const t = aliased('tokens', 'token', 't');

/**
 * The columns are named one by one: `select *` breaks prepared statements when a rebuilt projection is swapped in.
 */
export const tokenColumns: readonly string[] = [
  t.tenant_id,
  t.id,
  t.type,
  t.data,
  t.cvc,
  t.cvc_expires_at,
  t.mask,
  t.container,
  t.metadata,
  t.search_indexes,
  t.fingerprint,
  t.fingerprint_expression,
  t.expires_at,
  t.expires_at_text,
  t.created_by,
  t.created_at,
  t.modified_by,
  t.modified_at,
  t.set_without_sight,
  t.signature,
];

/** A token is absent from the instant of its expiry, also before the sweeper has ended it (rules.md §3). */
export const isExpired = (row: { readonly expires_at: Date | null }, now: Date): boolean =>
  row.expires_at !== null && row.expires_at <= now;

const parsed = <Value>(json: string | null): Value | undefined =>
  json === null ? undefined : (JSON.parse(json) as Value);

export const detailsOf = (row: TokenRow): TokenDetails => ({
  id: row.id,
  type: row.type,
  content: {
    data: row.data,
    cvc: row.cvc ?? undefined,
    cvc_expires_at: row.cvc_expires_at?.toISOString(),
    mask: parsed<Json>(row.mask),
    containers: [row.container],
    metadata: parsed<Record<string, string>>(row.metadata),
    search_indexes: parsed<string[]>(row.search_indexes),
    fingerprint: row.fingerprint ?? undefined,
    fingerprint_expression: row.fingerprint_expression ?? undefined,
    expires_at: row.expires_at_text ?? undefined,
  },
  createdBy: row.created_by,
  createdAt: row.created_at.toISOString(),
  modifiedBy: row.modified_by ?? undefined,
  modifiedAt: row.modified_at?.toISOString(),
});

/** The end of the cvc. Undefined when there is no cvc that may be shown. */
export const cvcEndOfRow = ({ cvc, cvc_expires_at: endsAt }: OpenRow, now: Date): string | undefined =>
  cvcEndOf({ cvc: cvc ?? undefined, cvc_expires_at: endsAt?.toISOString() }, now);

/** The end of the cvc that the token may hold as the transform shows it. */
export function shownCvcEndOfRow(
  { cvc, cvc_expires_at: endsAt, mask }: OpenRow,
  transform: Transform,
  now: Date,
): string | undefined {
  if (cvc === null) return undefined;
  const content = { cvc, cvc_expires_at: endsAt?.toISOString(), mask: parsed<Json>(mask) };
  return shownCvcEndOf(content, transform, now);
}
