import type { Json } from '../json.ts';

/** A uniformly distributed integer in [0, exclusiveMax). node:crypto's `randomInt` unless a test injects another. */
export type RandomInt = (exclusiveMax: number) => number;

/** A filter with its arguments checked: what remains is a function of the value. */
export type BoundFilter = (value: Json, random: RandomInt) => Json;

/**
 * A filter of rules.md §4. `bind` checks the arguments, once at compile time when all are literals, and throws
 * FilterArgumentError; the bound function throws FilterValueError when the value does not suit.
 */
export interface VaultFilter {
  readonly name: string;
  readonly maxArguments: number;
  bind(args: readonly unknown[]): BoundFilter;
}

/** Its message names the argument, never its value: an argument may be computed from data. */
export class FilterArgumentError extends Error {
  override readonly name = 'FilterArgumentError';
}

/** Its message says what kind of value the filter needs, never the value. */
export class FilterValueError extends Error {
  override readonly name = 'FilterValueError';
}
