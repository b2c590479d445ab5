import { hashDomains, type Json, type TokenType } from '@token-vault/contracts';
import type { Secret, TenantHashes } from '@token-vault/crypto';
import { evaluateFingerprint, evaluateSearchIndexes } from '@token-vault/expressions';
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
  /** None when the token gets no fingerprint. */
  readonly fingerprintExpression: string | undefined;
}

/** What is stored beside the sealed data so that a token can be found: keyed hashes only, never a value. */
export function deriveValues(hashes: TenantHashes, derivation: Derivation): DerivedValues {
  const { type, metadata, searchIndexes, fingerprintExpression } = derivation;
  const data = derivation.data.expose();
  return refuseBadExpressions(() => {
    const values = evaluateSearchIndexes(searchIndexes, data);
    const indexes = {
      search_indexes: [...searchIndexes],
      index_hashes: [...new Set(values.map((value) => hashes.blindIndex(hashDomains.searchIndex, value)))],
    };
    if (fingerprintExpression === undefined) return indexes;
    const value = evaluateFingerprint(fingerprintExpression, data, metadata ?? {});
    return {
      ...indexes,
      fingerprint: hashes.fingerprint(type, value),
      fingerprint_expression: fingerprintExpression,
    };
  });
}
