import { withQuery } from '../../api/client.ts';

export interface TokenFilters {
  readonly type?: string;
  readonly container?: string;
  /** Plain dates. */
  readonly from?: string;
  readonly to?: string;
}

/** Not in the address: a value may say whom a token belongs to. */
export interface MetadataFilter {
  readonly key: string;
  readonly value: string;
}

const quoted = (text: string): string => `"${text.replace(/["\\]/g, '\\$&')}"`;

/** The filters in the language of `POST /tokens/search`. */
export function searchQueryOf(
  { type, container, from, to }: TokenFilters,
  { key, value }: MetadataFilter,
): string {
  const terms = [
    type && `type:${type}`,
    container &&
      `container:${quoted(container.endsWith('/*') ? container : `${container.replace(/\/?$/, '/')}*`)}`,
    (from || to) && `created_at:[${from ? quoted(from) : '*'} TO ${to ? quoted(to) : '*'}]`,
    key && value && `metadata.${key.replace(/[\s:()"\\[\]{}]/g, '\\$&')}:${quoted(value)}`,
  ];
  return terms.filter(Boolean).join(' AND ');
}

export const listPathOf = ({ type }: TokenFilters, { key, value }: MetadataFilter, page: number): string =>
  withQuery('/tokens', { type, [`metadata.${key}`]: key === '' ? undefined : value, page, size: 25 });
