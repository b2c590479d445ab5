import { AlteredRecordError, type Statement } from '@token-vault/contracts';
import { isErased, type KeyRing, type TenantHashes } from '@token-vault/crypto';

export interface SignedRow {
  readonly statement: Statement;
  readonly signature: string | null;
}

/** Proxies are younger than signatures, so a proxy without one is never believed. */
const alwaysSigned: readonly Statement['kind'][] = ['proxy'];

/** Undefined when the tenant was deleted meanwhile: then nothing sealed of it can be opened. */
async function hashesOf(
  keyRing: Pick<KeyRing, 'hashes'>,
  tenantId: string,
): Promise<TenantHashes | undefined> {
  try {
    return await keyRing.hashes(tenantId);
  } catch (error) {
    if (isErased(error)) return undefined;
    throw error;
  }
}

/**
 * Checks the signatures of rows before they are shown. Otherwise an administrator could read a row that an attacker has altered and write
 * it back, and the vault would sign it (ADR 20). @throws AlteredRecordError
 */
export async function requireSigned(
  keyRing: Pick<KeyRing, 'hashes'>,
  tenantId: string,
  rows: readonly SignedRow[],
): Promise<void> {
  const hashes = rows.length === 0 ? undefined : await hashesOf(keyRing, tenantId);
  if (!hashes) return;
  for (const { statement, signature } of rows) {
    const isGenuine = alwaysSigned.includes(statement.kind)
      ? hashes.isSigned(statement, signature)
      : hashes.isBelieved(statement, signature);
    if (!isGenuine) throw new AlteredRecordError(statement.kind);
  }
}
