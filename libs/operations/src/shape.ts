import { fieldLimits } from '@token-vault/contracts';
import type { z } from 'zod';
import { nearestName } from './nearest-name.ts';

/** A name or a count that does not fit. */
export interface ShapeError {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** Enough for whoever made a mistake; more would only be work. */
const maxErrors = 100;
/** Of one list; no list of the interface may be longer. */
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

/** The schema beneath what may be absent, null or converted. */
function bare(schema: z.ZodType): { readonly schema: z.ZodType; readonly definition: Definition } {
  const definition = schema.def as Definition;
  if (wrappers.has(definition.type) && definition.innerType) return bare(definition.innerType);
  if (definition.type === 'pipe') {
    // A pipe begins with a schema (`a.pipe(b)`, `a.transform`) or with a conversion (`preprocess`).
    const isConversion = (definition.in?.def as Definition | undefined)?.type === 'transform';
    const next = isConversion ? definition.out : definition.in;
    if (next) return bare(next);
  }
  return { schema, definition };
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

class Walk {
  readonly errors: ShapeError[] = [];
  readonly #isLenient: boolean;

  constructor(isLenient: boolean) {
    this.#isLenient = isLenient;
  }

  visit(given: z.ZodType, value: unknown, path: readonly PropertyKey[]): void {
    if (this.errors.length >= maxErrors) return;
    const { schema, definition } = bare(given);
    if (definition.type === 'object' && isObject(value)) this.#object(schema, definition, value, path);
    else if (definition.type === 'array' && Array.isArray(value)) this.#array(definition, value, path);
    else if (definition.type === 'record' && isObject(value)) this.#record(schema, value, path);
  }

  #object(
    schema: z.ZodType,
    { shape = {} }: Definition,
    value: Readonly<Record<string, unknown>>,
    path: readonly PropertyKey[],
  ): void {
    const prefix = fieldLimits.get(schema)?.namePrefix;
    for (const name of Object.keys(value)) {
      if (this.errors.length >= maxErrors) return;
      const isPrefixed = prefix !== undefined && name.startsWith(prefix) && name.length > prefix.length;
      const child = Object.hasOwn(shape, name) ? shape[name] : undefined;
      if (child) this.visit(child, value[name], [...path, name]);
      // `id[]=a` means a list elsewhere. Ignored, it would ask for everything.
      else if (!isPrefixed && (!this.#isLenient || name.includes('[')))
        this.#add([...path, name], unknownField(name, Object.keys(shape), prefix));
    }
  }

  #array({ element }: Definition, value: readonly unknown[], path: readonly PropertyKey[]): void {
    if (!element) return;
    // The validator stops at a list that is too long, and says so.
    for (const [index, item] of value.slice(0, maxItems).entries())
      this.visit(element, item, [...path, index]);
  }

  #record(schema: z.ZodType, value: Readonly<Record<string, unknown>>, path: readonly PropertyKey[]): void {
    const limit = fieldLimits.get(schema)?.maxEntries;
    if (limit !== undefined && Object.keys(value).length > limit)
      this.#add(path, `must have at most ${limit} entries`);
    // Plain assignment, as in the validator, would take it for the prototype and lose it.
    if (Object.hasOwn(value, '__proto__')) this.#add([...path, '__proto__'], 'is a name that is not allowed');
  }

  #add(path: readonly PropertyKey[], message: string): void {
    this.errors.push({ path, message });
  }
}

function unknownField(name: string, known: readonly string[], prefix: string | undefined): string {
  const nearest = nearestName(name, prefix === undefined ? known : [...known, `${prefix}<key>`]);
  return nearest === undefined ? 'is not a known field' : `is not a known field; is ${nearest} meant?`;
}

/**
 * Names and numbers of fields and items that the schema does not allow, at most a hundred. Runs before the validator, which checks
 * every item before it counts them.
 */
export function shapeErrors(schema: z.ZodType, value: unknown, isLenient: boolean): readonly ShapeError[] {
  const walk = new Walk(isLenient);
  walk.visit(schema, value, []);
  return walk.errors;
}
