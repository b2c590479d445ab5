import type { RandomInt } from './filters/index.ts';
import type { Json } from './json.ts';
import type { Meter } from './meter.ts';

/** The names an expression sees. `metadata` is bound in `fingerprint_expression` only (rules.md §4). */
export interface Bindings {
  readonly data: Json;
  readonly metadata?: Json;
}

/** What the expressions of one job share: the names they see, and what they may still take. */
export interface Evaluation {
  readonly scope: Readonly<Record<string, Json>>;
  readonly random: RandomInt;
  readonly meter: Meter;
}
