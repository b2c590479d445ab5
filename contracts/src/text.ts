import { z } from 'zod';
import type { Json } from './json.ts';
import { secretIfGiven, type Secret } from './secret.ts';

/** Text that every store can hold: no NUL, no lone surrogate. Lengths are in code points, as in JSON Schema. */
export const text = (min: number, max: number) =>
  z
    .string()
    .min(min)
    .max(max)
    .refine((value) => value.isWellFormed() && !value.includes('\0'), 'must be well-formed text without NUL');

/** The end of an application, key or session: RFC 3339, in UTC when there is no offset. The length allows nine digits after the second. */
export const expiry = z.iso
  .datetime({ offset: true, local: true })
  .max(35, 'must have at most nine digits after the second');

/**
 * An optional field. Clients send null for an unset field. The schema is overwritten, not transformed: a transform makes a
 * closure for each value, which V8 allocates in the old generation and which keeps the value alive (ADR 13).
 */
export const optional = <Schema extends z.ZodType>(schema: Schema) =>
  schema.nullish().overwrite((value) => value ?? undefined) as z.ZodType as z.ZodType<
    z.output<Schema> | undefined,
    z.input<Schema> | null | undefined
  >;

/** A field with plaintext: it leaves the validator as a `Secret`. Overwritten for the reason that `optional` gives. */
export const secretOf = <Schema extends z.ZodType>(schema: Schema) =>
  schema.overwrite(secretIfGiven as (value: unknown) => z.output<Schema>) as z.ZodType as z.ZodType<
    SecretOf<z.output<Schema>>,
    z.input<Schema>
  >;

type SecretOf<Value> = undefined extends Value
  ? Secret<Exclude<Value, undefined>> | undefined
  : Secret<Value>;

/** A body of which every field is optional. It may be absent. */
export const optionalBody = <Schema extends z.ZodObject>(schema: Schema) =>
  schema.prefault({} as z.input<Schema>);

/** The limits of a schema for names and number of fields. They are checked before the values (libs/operations). */
export interface FieldLimits {
  /** Maximum number of entries of a map. */
  readonly maxEntries?: number;
  /** Field names with this prefix are also accepted: `metadata.<key>`. */
  readonly namePrefix?: string;
}
export const fieldLimits = z.registry<FieldLimits>();

/** A map with a limit on the number of entries. */
export const boundedMap = <Value extends z.ZodType>(key: z.ZodString, value: Value, maxEntries: number) =>
  z
    .record(key, value)
    .refine((map) => Object.keys(map).length <= maxEntries, `must have at most ${maxEntries} entries`)
    .register(fieldLimits, { maxEntries });

/** Any JSON value; its content is checked elsewhere. The HTTP parser guarantees that it is JSON. */
export const anyJson = z.custom<Json>((value) => value !== undefined, 'is required');

/** Without control characters: a name that a tenant or the writer of an event has chosen must not control the terminal of an operator. */
export const printable = (name: string): string => name.replaceAll(/\p{C}/gu, '\uFFFD');
