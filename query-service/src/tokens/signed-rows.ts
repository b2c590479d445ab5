import type { TenantContext } from '@token-vault/access';
import { AlteredRecordError, tokenStatement } from '@token-vault/contracts';
import type { KeyRing, TenantHashes } from '@token-vault/crypto';
import { isErased } from '../erased.ts';
import type { TokenRow } from './row.ts';

/**
 * Rows say by container and mask who sees what, so each must be as the vault signed it before anything is decided by it. A page with
 * one that is not fails as a whole: to leave it out would hide a token without a word (ADR 20).
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
    // The tenant was deleted meanwhile: nothing of it opens any more.
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
  });

/** The text is signed, queries judge by the time: Postgres rounds to microseconds, JavaScript cuts to milliseconds. */
const isTimeOf = ({ expires_at: at, expires_at_text: text }: TokenRow): boolean =>
  at === null || text === null ? at === text : Math.abs(at.getTime() - Date.parse(text)) <= 1;
