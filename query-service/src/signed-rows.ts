import { AlteredRecordError, NotFoundError, type Statement } from '@token-vault/contracts';
import { isErased, type KeyRing, type TenantHashes } from '@token-vault/crypto';

export interface SignedRow {
  readonly statement: Statement;
  readonly signature: string | null;
}

/** Proxies are younger than signatures, so a proxy without one is never believed. */
const alwaysSigned: readonly Statement['kind'][] = ['proxy'];

/** Without the keys of the tenant no row can be checked, so none is shown. @throws NotFoundError */
async function hashesOf(keyRing: Pick<KeyRing, 'hashes'>, tenantId: string): Promise<TenantHashes> {
  try {
    return await keyRing.hashes(tenantId);
  } catch (error) {
    throw isErased(error) ? new NotFoundError('Tenant') : error;
  }
}

/**
 * Checks the signatures of rows before they are shown. Otherwise an administrator could read a row that an attacker has altered and write
 * it back, and the vault would sign it (ADR 20). @throws AlteredRecordError, NotFoundError when the tenant was deleted meanwhile
 */
export async function requireSigned(
  keyRing: Pick<KeyRing, 'hashes'>,
  tenantId: string,
  rows: readonly SignedRow[],
): Promise<void> {
  if (rows.length === 0) return;
  const hashes = await hashesOf(keyRing, tenantId);
  for (const { statement, signature } of rows) {
    const isGenuine = alwaysSigned.includes(statement.kind)
      ? hashes.isSigned(statement, signature)
      : hashes.isBelieved(statement, signature);
    if (!isGenuine) throw new AlteredRecordError(statement.kind);
  }
}
