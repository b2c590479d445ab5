import { compileJsonPath, JsonPathLimitError } from './json-path.ts';
import { FilterArgumentError, FilterValueError, type VaultFilter } from './filter.ts';
import { limits } from '../limits.ts';

/** The only value that an RFC 9535 query selects; no value or several values are an error. */
export const json: VaultFilter = {
  name: 'json',
  maxArguments: 1,
  bind([path]) {
    if (typeof path !== 'string') throw new FilterArgumentError('a JSONPath is required');
    if (path.length > limits.jsonPathLength)
      throw new FilterArgumentError(`the JSONPath must be at most ${limits.jsonPathLength} characters`);
    const query = compileJsonPath(path);
    if (query === undefined) throw new FilterArgumentError('the JSONPath is not valid (RFC 9535)');
    return (value) => {
      try {
        const found = query.firstTwo(value);
        if (found.length === 1 && found[0] !== undefined) return found[0];
      } catch (error) {
        if (error instanceof JsonPathLimitError)
          throw new FilterValueError('needs more steps than are allowed');
        throw error;
      }
      throw new FilterValueError('must select exactly one value');
    };
  },
};
