import { operations, ValidationError, type Operation } from '@token-vault/contracts';
import { describe, expect, it } from 'vitest';
import type { z } from 'zod';
import { parseInput } from '../src/validation.ts';

type Definition = z.core.$ZodTypeDef & {
  readonly innerType?: z.ZodType;
  readonly in?: z.ZodType;
  readonly out?: z.ZodType;
  readonly element?: z.ZodType;
  readonly valueType?: z.ZodType;
  readonly shape?: Readonly<Record<string, z.ZodType>>;
  readonly options?: readonly z.ZodType[];
};
const leaves = new Set(['string', 'number', 'boolean', 'enum', 'literal', 'custom', 'unknown', 'transform']);

/** Puts a value at a place of a request. */
type Put = (value: unknown) => unknown;

/** All places of a request by its schema: itself, its fields, their items and entries, and so on. */
function placesOf(schema: z.ZodType, put: Put = (value) => value): Put[] {
  const { type, innerType, in: into, out, element, valueType, shape, options } = schema.def as Definition;
  const inside = (child: z.ZodType, wrap: Put) => placesOf(child, (value) => put(wrap(value)));
  if (innerType) return placesOf(innerType, put);
  if (into && out) return [...placesOf(into, put), ...placesOf(out, put)];
  if (options) return options.flatMap((option) => placesOf(option, put));
  if (element) return [put, ...inside(element, (value) => [value])];
  if (valueType) return [put, ...inside(valueType, (value) => ({ key: value }))];
  if (shape)
    return [
      put,
      ...Object.entries(shape).flatMap(([name, child]) => inside(child, (value) => ({ [name]: value }))),
    ];
  if (!leaves.has(type)) throw new Error(`no test knows schemas of the kind ${type}`);
  return [put];
}

const canary = 'Kanarienvogel';
const many = (count: number, value: unknown) => Array.from({ length: count }, () => value);
const entries = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`${canary}${index}`, canary]));
/** Of each kind of JSON, and texts, numbers, lists and maps that are too short and too long. Each is wrong somewhere. */
const values: readonly unknown[] = [
  undefined,
  null,
  true,
  ...[-7_654_321, 0.7_654_321, 7_654_321, 1e15],
  ...['', ' ', canary, `${canary}\0`, canary.repeat(200_000)],
  ...[[], [canary], many(2_000, canary), many(2, null), many(2, 7_654_321)],
  ...[{}, { [canary]: canary }, entries(200), { '': canary }, { [canary.repeat(100)]: canary }],
];

const parts = Object.entries<Operation>(operations).flatMap(([id, { params, query, body }]) =>
  Object.entries({ path: params, query, body }).flatMap(([root, schema]) =>
    schema ? [{ id, root, schema }] : [],
  ),
);

/** The messages for a value that is not valid. */
function messagesFor(schema: z.ZodType, value: unknown): string[] {
  try {
    parseInput(schema, value, { root: 'body' });
    return [];
  } catch (error) {
    if (!(error instanceof ValidationError)) throw error;
    return Object.values(error.errors ?? {}).flat();
  }
}

/** Messages of zod. Our messages begin with a verb in lower case. */
const ofValidator =
  /expected|received|invalid|too (small|big)|unrecognized|pattern|regex|>=|<=|\bNaN\b|undefined/i;
const input = /kanarienvogel|7654321|1000000000000000|\0/i;

describe('the messages for values that are not valid', () => {
  it.each(parts)('of the $root of $id are in the words of the vault and quote nothing', ({ schema }) => {
    const told = new Set(
      placesOf(schema).flatMap((put) => values.flatMap((value) => messagesFor(schema, put(value)))),
    );
    expect(told.size).toBeGreaterThan(0);
    for (const message of told) {
      expect(message).toMatch(/^[a-z\d]/);
      expect(message).not.toMatch(ofValidator);
      expect(message).not.toMatch(input);
    }
  });
});
