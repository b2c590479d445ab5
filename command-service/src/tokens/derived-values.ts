import { hashDomains, type Json, type TokenType } from '@token-vault/contracts';
import type { Secret, TenantHashes } from '@token-vault/crypto';
import {
  evaluateFingerprint,
  evaluateSearchIndexes,
  missingFingerprint,
  type RequestExpressions,
} from '@token-vault/expressions';
import { refuseBadExpressions } from './expression-errors.ts';

export interface DerivedValues {
  readonly search_indexes?: string[];
  readonly index_hashes?: string[];
  readonly fingerprint?: string;
  readonly fingerprint_expression?: string;
}

export interface Derivation {
  readonly type: TokenType;
  readonly data: Secret<Json>;
  readonly metadata: Readonly<Record<string, string>> | undefined;
  readonly searchIndexes: readonly string[];
  /** Undefined when the token gets no fingerprint. */
  readonly fingerprintExpression: string | undefined;
  /**
   * True when the request or the token asks for a fingerprint, not only a setting of the tenant. Then an empty value
   * is an error.
   */
  readonly isFingerprintAsked: boolean;
}

/** The values that are stored beside the sealed data to find a token: keyed hashes only, never a plain value. */
export function deriveValues(
  expressions: RequestExpressions,
  hashes: TenantHashes,
  derivation: Derivation,
): Promise<DerivedValues> {
  const { type, metadata, searchIndexes, fingerprintExpression } = derivation;
  const data = derivation.data.expose();
  return refuseBadExpressions(async () => {
    const values = await evaluateSearchIndexes(expressions, searchIndexes, data);
    const indexes = {
      search_indexes: [...searchIndexes],
      index_hashes: [...new Set(values.map((value) => hashes.blindIndex(hashDomains.searchIndex, value)))],
    };
    if (fingerprintExpression === undefined) return indexes;
    const bindings = { data, metadata: metadata ?? {} };
    const value = await evaluateFingerprint(expressions, fingerprintExpression, bindings);
    if (value === undefined && derivation.isFingerprintAsked) throw missingFingerprint();
    if (value === undefined) return indexes;
    return {
      ...indexes,
      fingerprint: hashes.fingerprint(type, value),
      fingerprint_expression: fingerprintExpression,
    };
  });
}
