import type { Json, TokenContent } from '@token-vault/contracts';
import type { Secret } from '@token-vault/crypto';
import { DataTooLargeError, lastingPart, openToken } from '@token-vault/tokens';
import { expressionsOf } from '../dependencies.ts';
import type { TokenDependencies } from './dependencies.ts';
import { deriveValues, type DerivedValues } from './derived-values.ts';
import { deduplicationAfter, describedBefore, isDefaultMade, setWithoutSightAfter } from './descriptions.ts';
import { fingerprintExpressionFor, isDeduplicated, isFingerprintAsked } from './drafts.ts';
import { refuseBadMask } from './expression-errors.ts';
import { isDataHidden } from './patch-attempt.ts';
import type { PatchAttempt } from './patch-attempt.ts';
import { expiryAfter, mergeData, mergeMask, mergeMetadata, replace } from './patched-fields.ts';

/** The result of the patch, before anything is sealed. */
export interface Change {
  readonly data: Secret<Json>;
  readonly mask: Json | undefined;
  readonly masked: Secret<Json> | undefined;
  readonly rest: Omit<TokenContent, 'data' | 'cvc' | 'cvc_expires_at'>;
  readonly deduplicate: boolean;
}

/** The limit of merged data tells how large the hidden data is, so its errors count as misses. @throws RateLimitedError */
export function changeOf(dependencies: TokenDependencies, attempt: PatchAttempt): Promise<Change> {
  const { patch, context } = attempt;
  const made = () => change(dependencies, attempt);
  if (patch.data === undefined || !isDataHidden(attempt)) return made();
  return dependencies.missLimit.guess(context, (error) => error instanceof DataTooLargeError, made);
}

async function change(dependencies: TokenDependencies, attempt: PatchAttempt): Promise<Change> {
  const { details, patch, context, target } = attempt;
  const { content } = details;
  const isHidden = isDataHidden(attempt);
  const before = describedBefore(attempt);
  const metadata = mergeMetadata(content.metadata, patch.metadata);
  const expiresAt = expiryAfter(content.expires_at, patch, context.now);
  // After all that can be refused without the stored data: else a patch that is refused anyway would tell of its size.
  const data = await mergeData(details.type, () => open(dependencies, attempt), patch.data);
  const mask = mergeMask(before.mask, patch.mask);
  const expressions = expressionsOf(dependencies, context);
  // A caller that may not see the data may not learn whether a mask works on it.
  const isChecked = !isHidden && (patch.mask !== undefined || patch.data !== undefined);
  const masked = isChecked ? await refuseBadMask(expressions, mask, data) : undefined;
  const deduplicateToken = deduplicationAfter(attempt);
  const deduplicate = isDeduplicated(context, deduplicateToken);
  const derived = await derivedValuesAfter(dependencies, attempt, { data, metadata, deduplicate });
  const rest = {
    ...(mask === undefined ? {} : { mask }),
    containers: [...target],
    ...(metadata === undefined ? {} : { metadata }),
    ...derived,
    ...setWithoutSightAfter(attempt),
    ...(deduplicateToken === undefined ? {} : { deduplicate_token: deduplicateToken }),
    ...(expiresAt === undefined ? {} : { expires_at: expiresAt }),
  };
  return { data, mask, masked, rest, deduplicate };
}

interface ChangedValues {
  readonly data: Secret<Json>;
  readonly metadata: Record<string, string> | undefined;
  readonly deduplicate: boolean;
}

/** The search indexes and the fingerprint of the changed token. */
async function derivedValuesAfter(
  dependencies: TokenDependencies,
  attempt: PatchAttempt,
  { data, metadata, deduplicate }: ChangedValues,
): Promise<DerivedValues> {
  const { details, patch, context } = attempt;
  const { type } = details;
  const before = describedBefore(attempt);
  const expression = replace(before.fingerprint_expression, patch.fingerprint_expression);
  const hashes = await dependencies.keyRing.hashes(context.principal.tenant.id);
  return deriveValues(expressionsOf(dependencies, context), hashes, {
    type,
    data: lastingPart(type, data),
    metadata,
    searchIndexes: replace(before.search_indexes, patch.search_indexes) ?? [],
    // A setting of the tenant does not add a fingerprint to hidden data.
    fingerprintExpression: isDataHidden(attempt)
      ? before.fingerprint_expression
      : isDefaultMade(attempt)
        ? fingerprintExpressionFor(context, type, expression, deduplicate)
        : expression,
    isFingerprintAsked: isFingerprintAsked(type, expression, patch),
  });
}

function open(
  { keyRing }: TokenDependencies,
  { details: { id: tokenId, content }, context }: PatchAttempt,
): Promise<Secret<Json>> {
  const place = { tenantId: context.principal.tenant.id, tokenId };
  return openToken(keyRing, place, content, context.now);
}
