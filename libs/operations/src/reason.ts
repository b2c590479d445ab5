import type { Principal } from '@token-vault/access';
import { holdsCardNumber, ValidationError } from '@token-vault/contracts';

/** In code points. */
const maxLength = 200;

/** Characters that end a line, or change the direction of the text around them where the log is shown. */
const hidden = /[\p{Cc}\p{Cs}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u;

/** Groups of a card number with the same characters between them, as it is printed: 4-4-4-4 and more, or 4-6-5. */
const groups = /[2-9]\d{3}([^0-9A-Za-z]{2,4})(?:\d{4}\1\d{4}\1\d{1,7}|\d{6}\1\d{5})/;

/** Digits of every script count as digits. */
function isLikeCardNumber(reason: string): boolean {
  const plain = reason.normalize('NFKC').replaceAll(/(?![0-9])\p{Nd}/gu, '9');
  return holdsCardNumber(plain) || groups.test(plain);
}

function faultOf(reason: string): string | undefined {
  if (reason.length > 2 * maxLength || Array.from(reason).length > maxLength)
    return `must have at most ${maxLength} characters`;
  if (hidden.test(reason)) return 'must not have control characters';
  if (isLikeCardNumber(reason)) return 'must not have what could be a card number';
  return /[\p{L}\p{N}]/u.test(reason) ? undefined : 'must have a letter or a digit';
}

/**
 * The caller with the reason that it gives for one request (docs/reference/reasons.md). The decisions of libs/access read it, and the metadata of
 * every event of the request holds it. The message of an error does not repeat the reason.
 * @throws ValidationError
 */
export function withReason(principal: Principal, given: string | undefined): Principal {
  const reason = given?.trim();
  if (reason === undefined || reason === '') return principal;
  const fault = faultOf(reason);
  if (fault !== undefined) throw ValidationError.of('SVC-REASON', fault);
  return { ...principal, reason };
}
