import type { Json } from '../json.ts';

/** A uniformly distributed integer in [0, exclusiveMax). node:crypto's `randomInt` unless a test injects another function. */
export type RandomInt = (exclusiveMax: number) => number;

/** A filter whose arguments were checked: a function of the value. */
type BoundFilter = (value: Json, random: RandomInt) => Json;

/**
 * A filter of rules.md §4. `bind` checks the arguments (once, at compile time, when all are literals) and throws FilterArgumentError. The
 * bound function throws FilterValueError when it cannot handle the value.
 */
export interface VaultFilter {
  readonly name: string;
  readonly maxArguments: number;
  bind(args: readonly unknown[]): BoundFilter;
}

/** The message names the argument, never its value: an argument may be computed from data. */
export class FilterArgumentError extends Error {
  override readonly name = 'FilterArgumentError';
}

/** The message names the kind of value that the filter needs, never the value. */
export class FilterValueError extends Error {
  override readonly name = 'FilterValueError';
}
