import { ValidationError } from '@token-vault/contracts';
import { parse } from 'node:querystring';

/** Node ignores further parameters without an error. */
const maxParameters = 1_000;

/** Reads the query of a request; repeated parameters become lists. @throws ValidationError when there are too many */
export function parseQuery(text: string | null): Readonly<Record<string, unknown>> {
  if (text === null || text === '') return {};
  const count = text.split('&', maxParameters + 1).length;
  if (count > maxParameters)
    throw ValidationError.of('query', `must have at most ${maxParameters} parameters`);
  return parse(text, '&', '=', { maxKeys: 0 });
}
