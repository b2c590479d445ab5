import { DomainError, ValidationError, type Operation } from '@token-vault/contracts';
import type { Request } from 'express';
import type { z } from 'zod';

/** A field's name comes from the request when it is a key of a map: it is shown, but not at any length. */
const maxPathLength = 200;

/** PATCH bodies must say that they are a merge patch (interface.md, Errors 1). */
export function checkBodyType(operation: Operation, request: Request): void {
  if (operation.bodyType === undefined) return;
  const type = (request.headers['content-type'] ?? '').split(';')[0]?.trim().toLowerCase();
  if (type !== operation.bodyType) {
    throw new DomainError('unsupported_media_type', `Content-Type must be ${operation.bodyType}.`);
  }
}

function parse(schema: z.ZodType | undefined, value: unknown, root: string): unknown {
  if (!schema) return undefined;
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const errors = new Map<string, string[]>();
  for (const issue of result.error.issues) {
    const path = issue.path.map(String).join('.').slice(0, maxPathLength).toWellFormed() || root;
    const messages = errors.get(path);
    if (messages) messages.push(issue.message);
    else errors.set(path, [issue.message]);
  }
  throw new ValidationError(Object.fromEntries(errors));
}

export function parseParams(operation: Operation, request: Request): unknown {
  return parse(operation.params, request.params, 'path');
}

export function parseQuery(operation: Operation, request: Request): unknown {
  return parse(operation.query, request.query, 'query');
}

export function parseBody(operation: Operation, body: unknown): unknown {
  return parse(operation.body, body, 'body');
}
