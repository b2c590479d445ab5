import { aliasPreserveFormat, aliasPreserveLength } from './alias.ts';
import { aliasCard, cardBin, cardMask } from './card.ts';
import { stringify, toBoolean, toNumber, toText } from './casts.ts';
import { json } from './json-path-filter.ts';
import { padLeft, padRight } from './pad.ts';
import { last4, reveal, revealLast } from './reveal.ts';
import { FilterArgumentError, FilterValueError, type VaultFilter } from './filter.ts';

/** Makes whole sentences of the filter's errors, with the name of the filter. */
function nameErrors(filter: VaultFilter): VaultFilter {
  const named = (error: unknown): unknown => {
    if (error instanceof FilterArgumentError)
      return new FilterArgumentError(`Filter ${filter.name}: ${error.message}.`);
    if (error instanceof FilterValueError)
      return new FilterValueError(`Filter ${filter.name} ${error.message}.`);
    return error;
  };
  return {
    ...filter,
    bind(args) {
      try {
        const bound = filter.bind(args);
        return (value, random) => {
          try {
            return bound(value, random);
          } catch (error) {
            throw named(error);
          }
        };
      } catch (error) {
        throw named(error);
      }
    },
  };
}

/** The filters that rules.md §4 adds to standard Liquid, by name. `json` replaces Liquid's filter. */
export const vaultFilters: ReadonlyMap<string, VaultFilter> = new Map(
  [
    aliasCard,
    aliasPreserveFormat,
    aliasPreserveLength,
    cardMask,
    cardBin,
    json,
    last4,
    padLeft,
    padRight,
    reveal,
    revealLast,
    stringify,
    toBoolean,
    toNumber,
    toText,
  ].map((filter) => [filter.name, nameErrors(filter)]),
);

export { FilterArgumentError, FilterValueError };
export type { RandomInt, VaultFilter } from './filter.ts';
