import { ValidationError } from '@token-vault/contracts';

export const textFields = [
  'id',
  'type',
  'data',
  'fingerprint',
  'container',
  'created_by',
  'modified_by',
] as const;
export type TextField = (typeof textFields)[number];
export const momentFields = ['created_at', 'modified_at'] as const;
export type MomentField = (typeof momentFields)[number];

/** A stretch of time: from an instant on, up to but without another. Open where absent. */
export interface Stretch {
  readonly from?: Date;
  readonly before?: Date;
}

/** What a query of POST /tokens/search asks for (rules.md §8). */
export type SearchQuery =
  | { readonly kind: 'everything' }
  | { readonly kind: 'all-of' | 'any-of'; readonly of: readonly SearchQuery[] }
  | { readonly kind: 'not'; readonly of: SearchQuery }
  | { readonly kind: 'text'; readonly field: TextField; readonly value: string }
  | { readonly kind: 'metadata'; readonly key: string; readonly value: string }
  | { readonly kind: 'moment'; readonly field: MomentField; readonly within: Stretch };

/** Bounds what one query may cost to parse and to run. */
export const searchLimits = { depth: 20, terms: 100 } as const;

/** @param at where in the query, from 0. The message never quotes the query: it may hold what it looks for. */
export const badQuery = (message: string, at: number): ValidationError =>
  ValidationError.of('query', `${message} (at character ${at + 1})`);
