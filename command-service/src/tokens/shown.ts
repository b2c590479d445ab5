import { decideTokenAccess, lesserOf, seesFingerprints, shownBy, type Principal } from '@token-vault/access';
import { TokensRead, type DataOf, type Token, type Transform } from '@token-vault/contracts';
import type { AuditTrail, RequestContext } from '@token-vault/operations';
import type { TokenDetails } from '@token-vault/tokens';
import { outsideTransaction } from '../transactions/context.ts';

/** How the answer of a write shows a token whose data the request did not hold completely. */
export interface Shown {
  readonly transform: Transform;
  /** Without `token:read` the answer also lacks the values that are computed from the data. */
  readonly isReadable: boolean;
  /** The caller is shown no fingerprints at all. */
  readonly hidesFingerprint?: true;
  /** A rule with `break_glass` grants it: the record says so. */
  readonly isBreakGlass?: true;
}

/** Fingerprints are hidden from a caller that is shown no plaintext, in its own answers and in their repeats. */
export const hiding = (principal: Principal): Pick<Shown, 'hidesFingerprint'> =>
  seesFingerprints(principal) ? {} : { hidesFingerprint: true };

/**
 * Only a caller that may read the token is shown its data (rules.md §5), and never more than the rule of the
 * operation shows (§6). This function alone decides it, for the answer and for the log. `by`: the transform of the
 * rule that granted the operation.
 */
export function shownTo(
  principal: Principal,
  token: { readonly id: string; readonly containers: readonly string[] },
  by: Transform = 'reveal',
): Shown {
  const read = decideTokenAccess(principal, 'token:read', token);
  const hides = hiding(principal);
  if (!read.isGranted) return { transform: 'redact', isReadable: false, ...hides };
  // A rule with `break_glass` reveals by reading only: the event of a write does not tell of it.
  const most = read.isBreakGlass ? 'mask' : read.transform;
  return { transform: lesserOf(by, most), isReadable: true, ...hides };
}

/**
 * The token of the answer. Its fingerprint is removed where the data may not be read: equal fingerprints reveal equal
 * data.
 */
export function withoutUnreadable(
  token: Token,
  { isReadable, hidesFingerprint }: Pick<Shown, 'isReadable' | 'hidesFingerprint'>,
): Token {
  if (isReadable) return hidesFingerprint ? { ...token, fingerprint: undefined } : token;
  const { data: _data, fingerprint: _fingerprint, ...visible } = token;
  return visible;
}

/** A token of which the caller may be told that it is there, and nothing that others may have written. */
export const withoutContent = ({ id, type, tenant_id, created_by, created_at }: Token): Token => ({
  id,
  type,
  tenant_id,
  created_by,
  created_at,
});

/** The token for the caller that made it. */
export const withSeenFingerprint = (token: Token, principal: Principal): Token =>
  seesFingerprints(principal) ? token : { ...token, fingerprint: undefined };

/** The reading of a token that is shown, as it is recorded. */
export const readingOf = (
  { id, type, content }: TokenDetails,
  { transform, isBreakGlass }: Shown,
): DataOf<'TokensRead'>['tokens'][number] => ({
  token_id: id,
  token_type: type,
  transform: shownBy(transform, content.mask !== undefined),
  ...(isBreakGlass ? { break_glass: true } : {}),
});

interface ShownToken {
  readonly operation: 'read' | 'deduplicate';
  readonly details: TokenDetails;
  /** The transform that the caller's rules allow. The record names the one that is applied to this token. */
  readonly transform: Transform;
}

/**
 * Records that a token is about to be shown, apart from the event of the write. The record is outside the
 * transaction: the token was shown even if the transaction is rolled back.
 */
export async function recordShown(
  audit: AuditTrail,
  context: RequestContext,
  { operation, details, transform }: ShownToken,
): Promise<void> {
  const { id, type, content } = details;
  const shown = shownBy(transform, content.mask !== undefined);
  const tokens = [{ token_id: id, token_type: type, transform: shown }];
  const data: DataOf<'TokensRead'> = { operation, tokens };
  await audit.record(outsideTransaction(context), TokensRead, data);
}
