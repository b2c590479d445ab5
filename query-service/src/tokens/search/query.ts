import { ValidationError, type Secret } from '@token-vault/contracts';

export const textFields = [
  'id',
  'type',
  'data',
  'fingerprint',
  'container',
  'created_by',
  'modified_by',
] as const;
export type TextField = Exclude<(typeof textFields)[number], 'data'>;
export const momentFields = ['created_at', 'modified_at'] as const;
export type MomentField = (typeof momentFields)[number];

/** A stretch of time: from an instant (included) to another (excluded). A missing end is open. */
export interface Stretch {
  readonly from?: Date;
  readonly before?: Date;
}

/** The parsed query of POST /tokens/search (rules.md §8). */
export type SearchQuery =
  | { readonly kind: 'everything' }
  | { readonly kind: 'all-of' | 'any-of'; readonly of: readonly SearchQuery[] }
  | { readonly kind: 'not'; readonly of: SearchQuery }
  | { readonly kind: 'data'; readonly value: Secret<string> }
  | { readonly kind: 'text'; readonly field: TextField; readonly value: string }
  | { readonly kind: 'metadata'; readonly key: string; readonly value: string }
  | { readonly kind: 'moment'; readonly field: MomentField; readonly within: Stretch };

/** Limits of one query, which bound the cost to parse and to run it. */
export const searchLimits = { depth: 20, terms: 100 } as const;

/**
 * @param at the offset in the query, from 0. The message never quotes the query: it may hold the value that the
 * caller searches for.
 */
export const badQuery = (message: string, at: number): ValidationError =>
  ValidationError.of('query', `${message} (at character ${at + 1})`);
