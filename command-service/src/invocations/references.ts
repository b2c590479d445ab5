import { ValidationError } from '@token-vault/contracts';
import type { TokenReferences } from '@token-vault/expressions';
import type { TokenDetails } from '@token-vault/tokens';
import { dotted } from '../tokens/expression-errors.ts';

/** The message holds the id: the reader of the message wrote that id into the arguments. */
export const missingMessage = (tokenId: string): string => `names a token that does not exist: ${tokenId}`;

const ambiguousMessage =
  'could name two tokens: all of one, or one whose id begins with "token:"; for that one write token: before its id';

/** Bytes of data of all tokens that one request names. Arguments with their data have at most 1 MiB, and filters may leave out a part. */
const mostDataBytes = 4 * 1024 * 1024;
/** Tokens of 512 KiB each are read in several steps, so that a request that names too many of them is refused before all are in memory. */
export const readAtOnce = 25;

/** Sealed data is base64. */
const dataBytesOf = ({ content: { data, cvc } }: TokenDetails): number =>
  Math.floor(((data.length + (cvc?.length ?? 0)) * 3) / 4);

export interface TokenLookup {
  readonly find: (tokenId: string) => Promise<TokenDetails | undefined>;
  /** Whether the caller may use the token now. */
  readonly isUsable: (details: TokenDetails) => boolean;
}

/**
 * The tokens in the order of their ids. Ends early at a token that the caller may not use, because the request is refused then: the size of
 * that token does not count, so the answer does not tell it.
 * @throws ValidationError when the data of usable tokens has more than 4 MiB together
 */
export async function findWithinBounds(
  tokenIds: readonly string[],
  { find, isUsable }: TokenLookup,
  fieldOf: (tokenId: string) => string = () => 'args',
): Promise<(TokenDetails | undefined)[]> {
  const found: (TokenDetails | undefined)[] = [];
  let bytes = 0;
  for (let at = 0; at < tokenIds.length; at += readAtOnce) {
    const next = await Promise.all(tokenIds.slice(at, at + readAtOnce).map(find));
    found.push(...next);
    if (next.some((details) => details && !isUsable(details))) return found;
    for (const details of next) bytes += details ? dataBytesOf(details) : 0;
    if (bytes > mostDataBytes)
      throw ValidationError.of(
        fieldOf(tokenIds[Math.min(at + readAtOnce, tokenIds.length) - 1] ?? ''),
        'names tokens that have more than 4 MiB of data together',
      );
  }
  return found;
}

/**
 * The tokens that arguments name.
 * @throws ValidationError naming each argument whose token does not exist, or that may refer to either of two tokens; or when their data
 * has more than 4 MiB together
 */
export async function findReferences(
  { tokens, ambiguous }: TokenReferences,
  lookup: TokenLookup,
): Promise<TokenDetails[]> {
  const errors: Record<string, string[]> = {};
  const complain = (field: string, message: string): void => {
    (errors[dotted(field)] ??= []).push(message);
  };
  const fieldOf = (tokenId: string) => dotted(tokens.get(tokenId) ?? ambiguous.get(tokenId) ?? 'args');
  const found = await findWithinBounds([...tokens.keys(), ...ambiguous.keys()], lookup, fieldOf);
  [...ambiguous.values()].forEach((field, index) => {
    if (found[tokens.size + index] !== undefined) complain(field, ambiguousMessage);
  });
  [...tokens].forEach(([tokenId, field], index) => {
    if (index < found.length && found[index] === undefined) complain(field, missingMessage(tokenId));
  });
  if (Object.keys(errors).length > 0) throw new ValidationError(errors);
  return found.slice(0, tokens.size).filter((details) => details !== undefined);
}
