import { decideTokenAccess, lesserOf, shownBy, type Principal } from '@token-vault/access';
import { TokensRead, type DataOf, type Token, type Transform } from '@token-vault/contracts';
import type { AuditTrail, RequestContext } from '@token-vault/service-kit';
import { outsideTransaction } from '../transactions/context.ts';
import type { TokenDetails } from './state.ts';

/** How the answer of a write shows a token that it did not bring whole. */
export interface Shown {
  readonly transform: Transform;
  /** Without `token:read` the answer lacks what is computed from the data, too. */
  readonly isReadable: boolean;
}

/**
 * rules.md §5: only who may read a token is shown its data, and never more than the rule of the operation shows (§6). The
 * one place that decides it, for the answer and for the log. `by`: the transform of the rule that granted the operation.
 */
export function shownTo(
  principal: Principal,
  token: { readonly id: string; readonly containers: readonly string[] },
  by: Transform = 'reveal',
): Shown {
  const read = decideTokenAccess(principal, 'token:read', token);
  return read.isGranted
    ? { transform: lesserOf(by, read.transform), isReadable: true }
    : { transform: 'redact', isReadable: false };
}

/** The token as answered, less its fingerprint where the data may not be read: equal fingerprints tell of equal data. */
export function withoutUnreadable(token: Token, { isReadable }: Shown): Token {
  if (isReadable) return token;
  const { data: _data, fingerprint: _fingerprint, ...visible } = token;
  return visible;
}

/**
 * Puts on record what is about to be shown of a token apart from the event of a write. Outside the transaction: it was shown, even if
 * that is rolled back.
 */
export async function recordShown(
  audit: AuditTrail,
  context: RequestContext,
  operation: 'read' | 'deduplicate',
  { id, type, content }: TokenDetails,
  transform: Transform,
): Promise<void> {
  const shown = shownBy(transform, content.mask !== undefined);
  const tokens = [{ token_id: id, token_type: type, transform: shown }];
  const data: DataOf<'TokensRead'> = { operation, tokens };
  await audit.record(outsideTransaction(context), TokensRead, data);
}
