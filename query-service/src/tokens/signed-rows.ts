import type { TenantContext } from '@token-vault/access';
import { AlteredRecordError, tokenStatement } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import { requireSigned } from '../signed-rows.ts';
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
  const signed = rows.map((row) => ({ statement: statementOf(row), signature: row.signature }));
  await requireSigned(keyRing, tenant.id, signed);
  if (!rows.every(isTimeOf)) throw new AlteredRecordError('token');
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
    createdBy: row.created_by,
    createdAt: row.created_at.toISOString(),
    modifiedBy: row.modified_by,
    modifiedAt: row.modified_at?.toISOString() ?? null,
  });

/**
 * The signature covers the text, queries compare the time. Postgres rounds to microseconds, JavaScript cuts to
 * milliseconds.
 */
const isTimeOf = ({ expires_at: at, expires_at_text: text }: TokenRow): boolean =>
  at === null || text === null ? at === text : Math.abs(at.getTime() - Date.parse(text)) <= 1;
