import { ValidationError } from '@token-vault/contracts';
import type { TokenReferences } from '@token-vault/expressions';
import { dotted } from '../tokens/expression-errors.ts';
import type { TokenDetails } from '../tokens/state.ts';

/** The id is told to who wrote it into the arguments. */
export const missingMessage = (tokenId: string): string => `names a token that does not exist: ${tokenId}`;

const ambiguousMessage =
  'could name two tokens: all of one, or one whose id begins with "token:"; for that one write token: before its id';

/**
 * The tokens that arguments name.
 * @throws ValidationError naming each argument whose token does not exist, or that could mean either of two tokens
 */
export async function findReferences(
  { tokens, ambiguous }: TokenReferences,
  find: (tokenId: string) => Promise<TokenDetails | undefined>,
): Promise<TokenDetails[]> {
  const errors: Record<string, string[]> = {};
  const complain = (field: string, message: string): void => {
    (errors[dotted(field)] ??= []).push(message);
  };
  const [found] = await Promise.all([
    Promise.all([...tokens.keys()].map(find)),
    ...[...ambiguous].map(async ([tokenId, field]) => {
      if ((await find(tokenId)) !== undefined) complain(field, ambiguousMessage);
    }),
  ]);
  [...tokens].forEach(([tokenId, field], index) => {
    if (found[index] === undefined) complain(field, missingMessage(tokenId));
  });
  if (Object.keys(errors).length > 0) throw new ValidationError(errors);
  return found.filter((details) => details !== undefined);
}
