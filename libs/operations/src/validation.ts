import { DomainError, ValidationError, type Operation } from '@token-vault/contracts';
import { z } from 'zod';
import { messageOf } from './messages.ts';
import { shapeErrors } from './shape.ts';

/** The name of a field comes from the request when the field is a key of a map: it is shown up to this length. */
const maxPathLength = 200;

/** For an operation without parameters of this kind: every parameter is unknown. */
export const noParameters = z.object({});

const misplaced = z.undefined('is a parameter of the query, not a field of the body').optional();
/** The bodies of operations that take none. The validator compiles a schema when it is first used. */
const empty = new WeakMap<Operation, z.ZodType>();

function emptyBodyOf(operation: Operation): z.ZodType {
  const { query } = operation;
  const names = query instanceof z.ZodObject ? Object.keys(query.shape) : [];
  const made = z.object(Object.fromEntries(names.map((name) => [name, misplaced]))).nullish();
  empty.set(operation, made);
  return made;
}

/** Of an operation that takes no body: absent or without fields. A field of that name as a parameter of the query is refused as such. */
export const bodyOf = (operation: Operation): z.ZodType =>
  operation.body ?? empty.get(operation) ?? emptyBodyOf(operation);

export interface InputOptions {
  /** The part of the request, for errors that have no path: `body`, `query` or `path`. */
  readonly root: string;
  /** Ignores unknown fields instead of refusing them (rules.md §1). */
  readonly isLenient?: boolean;
  /** The place of the value in the request, when it is not the whole part. */
  readonly within?: readonly PropertyKey[];
}

/** PATCH bodies must have the media type of a merge patch (interface.md, Errors 1). @throws DomainError 415 */
export function checkMediaType(operation: Operation, mediaType: string | undefined): void {
  if (operation.bodyType === undefined || mediaType === undefined) return;
  const type = mediaType.split(';')[0]?.trim().toLowerCase();
  if (type !== operation.bodyType)
    throw new DomainError('unsupported_media_type', `Content-Type must be ${operation.bodyType}.`);
}

/**
 * Validates one part of a request; returns it with the type of the operations table. Names and counts are checked before values: a list of
 * a million wrong items gives one error.
 * @throws ValidationError
 */
export function parseInput(schema: z.ZodType | undefined, value: unknown, options: InputOptions): unknown {
  if (!schema) return undefined;
  const misshapen = shapeErrors(schema, value, options.isLenient ?? false);
  if (misshapen.length > 0) throw errorOf(misshapen, options);
  const result = schema.safeParse(value, { error: messageOf });
  if (result.success) return result.data;
  throw errorOf(result.error.issues, options);
}

interface Fault {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

function errorOf(faults: readonly Fault[], { root, within = [] }: InputOptions): ValidationError {
  const errors = new Map<string, string[]>();
  for (const { path, message } of faults) {
    const name = [...within, ...path].map(String).join('.').slice(0, maxPathLength).toWellFormed() || root;
    const messages = errors.get(name);
    if (messages) messages.push(message);
    else errors.set(name, [message]);
  }
  return new ValidationError(Object.fromEntries(errors));
}
