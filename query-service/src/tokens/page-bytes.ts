import { ValidationError } from '@token-vault/contracts';
import type { GrantedToken } from './show.ts';

/** What a page of tokens may be. One token alone always fits: data is at most 512 KiB. */
const maxPageBytes = 4 * 1024 * 1024;
/** Ids, times and names of fields. */
const restBytes = 600;

const lengthOf = (text: string | null): number => text?.length ?? 0;

/**
 * About what a token takes in the answer. The size of its data counts only where it is shown: else the refusal would tell
 * what the caller may not see (ADR 18). What masks show has a limit of its own for the request (ADR 22).
 */
function bytesOf({ row, transform }: GrantedToken): number {
  // Sealed values are base64url.
  const data = transform === 'reveal' ? (lengthOf(row.data) + lengthOf(row.cvc)) * 0.75 : 0;
  return restBytes + data + lengthOf(row.mask) + lengthOf(row.metadata) + lengthOf(row.search_indexes);
}

/**
 * Gives the tokens of a page that is not too large. Before anything is opened or recorded. A page is never cut short, because page numbers would then mean something else.
 * @throws ValidationError that names `size` and says how many tokens fit
 */
export function requireSmallPage(tokens: readonly GrantedToken[]): readonly GrantedToken[] {
  let total = 0;
  const fitting = tokens.findIndex((token) => (total += bytesOf(token)) > maxPageBytes);
  if (fitting <= 0) return tokens;
  throw ValidationError.of('size', `gives a page of more than 4 MiB here: ask for at most ${fitting}`);
}
