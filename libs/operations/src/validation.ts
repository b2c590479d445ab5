import { DomainError, ValidationError, type Operation } from '@token-vault/contracts';
import type { z } from 'zod';

/** A field's name comes from the request when it is a key of a map: it is shown, but not at any length. */
const maxPathLength = 200;

/** PATCH bodies must say that they are a merge patch (interface.md, Errors 1). @throws DomainError 415 */
export function checkMediaType(operation: Operation, mediaType: string | undefined): void {
  if (operation.bodyType === undefined || mediaType === undefined) return;
  const type = mediaType.split(';')[0]?.trim().toLowerCase();
  if (type !== operation.bodyType)
    throw new DomainError('unsupported_media_type', `Content-Type must be ${operation.bodyType}.`);
}

/**
 * One part of a request, as the operations table types it. `root` names the part in an error that has no path.
 * @throws ValidationError
 */
export function parseInput(schema: z.ZodType | undefined, value: unknown, root: string): unknown {
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
