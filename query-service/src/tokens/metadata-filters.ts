import { ValidationError } from '@token-vault/contracts';

const maxFilters = 50;

const isStorable = (text: string): boolean => text.isWellFormed() && !text.includes('\0');

/** A token has at most that many metadata keys, and Postgres accepts no NUL. @throws ValidationError */
export function checkMetadataFilters(
  filters: readonly { readonly key: string; readonly value: string }[],
): void {
  if (filters.length > maxFilters) {
    throw ValidationError.of('metadata', `must be at most ${maxFilters} filters`);
  }
  for (const { key, value } of filters) {
    if (!isStorable(key) || !isStorable(value)) {
      throw ValidationError.of('metadata', 'must be well-formed text without NUL');
    }
  }
}
