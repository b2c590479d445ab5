import { z } from 'zod';
import type { Json } from './json.ts';

/** Text that every store can hold: no NUL, no half of a surrogate pair. Lengths are in code points, as JSON Schema counts. */
export const text = (min: number, max: number) =>
  z
    .string()
    .min(min)
    .max(max)
    .refine((value) => value.isWellFormed() && !value.includes('\0'), 'must be well-formed text without NUL');

/**
 * An optional field: clients of this kind of service send null for unset. Overwritten, not transformed: a transform makes a
 * function that is old at birth, and keeps the value it was made for (ADR 13).
 */
export const optional = <Schema extends z.ZodType>(schema: Schema) =>
  schema.nullish().overwrite((value) => value ?? undefined) as z.ZodType as z.ZodType<
    z.output<Schema> | undefined,
    z.input<Schema> | null | undefined
  >;

/** What a schema says of the names and the number of its fields. Checked before its values are (libs/operations). */
export interface FieldLimits {
  /** Most entries of a map. */
  readonly maxEntries?: number;
  /** Names that begin so are fields as well: `metadata.<key>`. */
  readonly namePrefix?: string;
}
export const fieldLimits = z.registry<FieldLimits>();

/** A map with a limit of entries. */
export const boundedMap = <Value extends z.ZodType>(key: z.ZodString, value: Value, maxEntries: number) =>
  z
    .record(key, value)
    .refine((map) => Object.keys(map).length <= maxEntries, `must have at most ${maxEntries} entries`)
    .register(fieldLimits, { maxEntries });

/** Checked by hand elsewhere; the HTTP parser guarantees that it is JSON. */
export const anyJson = z.custom<Json>((value) => value !== undefined, 'is required');
