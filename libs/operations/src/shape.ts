import { fieldLimits } from '@token-vault/contracts';
import type { z } from 'zod';
import { nearestName } from './nearest-name.ts';

/** A field name that is unknown, or a number of fields or items that exceeds the limit. */
export interface ShapeError {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** The limit of errors in one answer; a client does not need more. */
const maxErrors = 100;
/** Items of one list that are checked; no list of the interface may be longer. */
const maxItems = 1_000;

type Definition = z.core.$ZodTypeDef & {
  readonly innerType?: z.ZodType;
  readonly in?: z.ZodType;
  readonly out?: z.ZodType;
  readonly element?: z.ZodType;
  readonly shape?: Readonly<Record<string, z.ZodType>>;
  readonly catchall?: z.ZodType;
};

const wrappers: ReadonlySet<string> = new Set([
  'optional',
  'nullable',
  'default',
  'prefault',
  'nonoptional',
  'readonly',
  'catch',
]);

/** The inner schema, without the wrappers for absent, null and converted values. */
function bare(schema: z.ZodType): z.ZodType {
  const definition = schema.def as Definition;
  if (wrappers.has(definition.type) && definition.innerType) return bare(definition.innerType);
  if (definition.type === 'pipe') {
    // A pipe begins with a schema (`a.pipe(b)`, `a.transform`) or with a conversion (`preprocess`).
    const isConversion = (definition.in?.def as Definition | undefined)?.type === 'transform';
    const next = isConversion ? definition.out : definition.in;
    if (next) return bare(next);
  }
  return schema;
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

class Walk {
  readonly errors: ShapeError[] = [];
  readonly #isLenient: boolean;
  /** The names and indexes that lead to the value that is visited. Copied only for an error: most bodies have none. */
  readonly #path: PropertyKey[] = [];

  constructor(isLenient: boolean) {
    this.#isLenient = isLenient;
  }

  visit(given: z.ZodType, value: unknown): void {
    // Schemas without fields or items have nothing to check here.
    if (typeof value !== 'object' || value === null || this.errors.length >= maxErrors) return;
    const schema = bare(given);
    const definition = schema.def as Definition;
    if (definition.type === 'object' && isObject(value)) this.#object(schema, definition, value);
    else if (definition.type === 'array' && Array.isArray(value)) this.#array(definition, value);
    else if (definition.type === 'record' && isObject(value)) this.#record(schema, value);
  }

  #visitAt(key: PropertyKey, schema: z.ZodType, value: unknown): void {
    this.#path.push(key);
    this.visit(schema, value);
    this.#path.pop();
  }

  #object(schema: z.ZodType, { shape = {} }: Definition, value: Readonly<Record<string, unknown>>): void {
    const prefix = fieldLimits.get(schema)?.namePrefix;
    for (const name of Object.keys(value)) {
      if (this.errors.length >= maxErrors) return;
      const isPrefixed = prefix !== undefined && name.startsWith(prefix) && name.length > prefix.length;
      const child = Object.hasOwn(shape, name) ? shape[name] : undefined;
      if (child) this.#visitAt(name, child, value[name]);
      // Other interfaces write a list as `id[]=a`. If the name were ignored, the query would ask for all tokens.
      else if (!isPrefixed && (!this.#isLenient || name.includes('[')))
        this.#add([name], unknownField(name, Object.keys(shape), prefix));
    }
  }

  #array({ element }: Definition, value: readonly unknown[]): void {
    if (!element) return;
    // The validator reports a list that is too long.
    for (const [index, item] of value.slice(0, maxItems).entries()) this.#visitAt(index, element, item);
  }

  #record(schema: z.ZodType, value: Readonly<Record<string, unknown>>): void {
    const limit = fieldLimits.get(schema)?.maxEntries;
    if (limit !== undefined && Object.keys(value).length > limit)
      this.#add([], `must have at most ${limit} entries`);
    // A plain assignment, as in the validator, would set the prototype and lose the value.
    if (Object.hasOwn(value, '__proto__')) this.#add(['__proto__'], 'is a name that is not allowed');
  }

  /** `inside`: the rest of the path, inside the value that is visited. */
  #add(inside: readonly PropertyKey[], message: string): void {
    this.errors.push({ path: [...this.#path, ...inside], message });
  }
}

function unknownField(name: string, known: readonly string[], prefix: string | undefined): string {
  const nearest = nearestName(name, prefix === undefined ? known : [...known, `${prefix}<key>`]);
  return nearest === undefined ? 'is not a known field' : `is not a known field; is ${nearest} meant?`;
}

/**
 * Finds unknown field names and numbers of fields and items over the limit; at most a hundred errors. Runs before the validator, which
 * checks every item before it counts the items.
 */
export function shapeErrors(schema: z.ZodType, value: unknown, isLenient: boolean): readonly ShapeError[] {
  const walk = new Walk(isLenient);
  walk.visit(schema, value);
  return walk.errors;
}
