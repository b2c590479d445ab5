import type { Json, Token } from '@token-vault/contracts';
import type { Secret } from '@token-vault/crypto';
import type { TokenRow } from './row.ts';

const parsed = <T>(json: string | null): T | undefined =>
  json === null ? undefined : (JSON.parse(json) as T);

/**
 * A token in the shape of an answer (rules.md §1): unset fields are left out, `search_indexes` is empty when there
 * are none, `mask` is the raw expression, `data` is what the caller's transform shows.
 */
export function presentToken(row: TokenRow, data: Secret<Json> | undefined): Token {
  return {
    id: row.id,
    tenant_id: row.tenant_id,
    type: row.type,
    data: data?.expose(),
    mask: parsed<Json>(row.mask),
    fingerprint: row.fingerprint ?? undefined,
    fingerprint_expression: row.fingerprint_expression ?? undefined,
    containers: [row.container],
    metadata: parsed<Record<string, string>>(row.metadata),
    search_indexes: parsed<string[]>(row.search_indexes) ?? [],
    expires_at: row.expires_at_text ?? undefined,
    created_by: row.created_by ?? undefined,
    created_at: row.created_at.toISOString(),
    modified_by: row.modified_by ?? undefined,
    modified_at: row.modified_at?.toISOString(),
  };
}
