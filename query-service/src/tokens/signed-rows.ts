import type { TenantContext } from '@token-vault/access';
import { AlteredRecordError, tokenStatement } from '@token-vault/contracts';
import { isErased, type KeyRing, type TenantHashes } from '@token-vault/crypto';
import type { TokenRow } from './row.ts';

/**
 * The container and mask of a row decide what a caller sees, so the signature of each row is checked before any
 * decision uses the row. A page with one altered row fails as a whole: leaving the row out would hide a token
 * silently (ADR 20).
 * @throws AlteredRecordError
 */
export async function requireSignedRows(
  keyRing: Pick<KeyRing, 'hashes'>,
  tenant: Pick<TenantContext, 'id'>,
  rows: readonly TokenRow[],
): Promise<void> {
  if (rows.length === 0) return;
  let hashes: TenantHashes;
  try {
    hashes = await keyRing.hashes(tenant.id);
  } catch (error) {
    // The tenant was deleted meanwhile, so nothing of it can be opened.
    if (isErased(error)) return;
    throw error;
  }
  for (const row of rows) {
    if (!hashes.isBelieved(statementOf(row), row.signature) || !isTimeOf(row))
      throw new AlteredRecordError('token');
  }
}

const statementOf = (row: TokenRow) =>
  tokenStatement({
    id: row.id,
    type: row.type,
    data: row.data,
    cvc: row.cvc,
    cvcExpiresAtMs: row.cvc_expires_at?.getTime() ?? null,
    mask: row.mask,
    container: row.container,
    searchIndexes: row.search_indexes,
    fingerprint: row.fingerprint,
    fingerprintExpression: row.fingerprint_expression,
    expiresAt: row.expires_at_text,
    setWithoutSight: row.set_without_sight,
  });

/**
 * The signature covers the text, queries compare the time. Postgres rounds to microseconds, JavaScript cuts to
 * milliseconds.
 */
const isTimeOf = ({ expires_at: at, expires_at_text: text }: TokenRow): boolean =>
  at === null || text === null ? at === text : Math.abs(at.getTime() - Date.parse(text)) <= 1;
