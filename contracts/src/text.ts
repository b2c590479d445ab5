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

/** Checked by hand elsewhere; the HTTP parser guarantees that it is JSON. */
export const anyJson = z.custom<Json>((value) => value !== undefined, 'is required');
