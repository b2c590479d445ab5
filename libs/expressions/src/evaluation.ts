import type { RandomInt } from './filters/index.ts';
import type { Json } from './json.ts';
import type { Meter } from './meter.ts';

/** The names that an expression can read. `metadata` is bound in `fingerprint_expression` only (rules.md §4). */
export interface Bindings {
  readonly data: Json;
  readonly metadata?: Json;
}

/** The values that the expressions of one job share: the bindings and the limits. */
export interface Evaluation {
  readonly scope: Readonly<Record<string, Json>>;
  readonly random: RandomInt;
  readonly meter: Meter;
}
