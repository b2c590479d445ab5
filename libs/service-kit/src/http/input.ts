import { DomainError, ValidationError, type Operation } from '@token-vault/contracts';
import express, { type Request, type Response } from 'express';
import type { z } from 'zod';

/** decisions.md §3. */
export const bodyLimitBytes = 1024 * 1024;
/** Deeper nesting serves nobody and would exhaust the stack of JSON.stringify. */
export const maxDepth = 100;

const parseJson = express.json({ limit: bodyLimitBytes, strict: false, inflate: false, type: () => true });

/** Reads a JSON body; undefined when there is none, whatever its Content-Type (decisions.md §1). */
export async function readBody(request: Request, response: Response): Promise<unknown> {
  if (
    request.headers['transfer-encoding'] === undefined &&
    (request.headers['content-length'] ?? '0') === '0'
  ) {
    return undefined;
  }
  await new Promise<void>((resolve, reject) => {
    parseJson(request, response, (error?: unknown) => {
      if (error) reject(error instanceof Error ? error : new Error('the body could not be read'));
      else resolve();
    });
  });
  const body: unknown = request.body;
  refuseDepth(body);
  return body;
}

/** Iterative, since the input may be nested deeper than the stack reaches. */
function refuseDepth(body: unknown): void {
  let level = [body];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > maxDepth)
      throw ValidationError.of('body', `must not be nested deeper than ${maxDepth} levels`);
    const next: unknown[] = [];
    for (const value of level) {
      if (typeof value !== 'object' || value === null) continue;
      for (const child of Object.values(value))
        if (typeof child === 'object' && child !== null) next.push(child);
    }
    level = next;
  }
}

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
  const errors: Record<string, string[]> = {};
  for (const issue of result.error.issues) {
    const path = issue.path.map(String).join('.') || root;
    (errors[path] ??= []).push(issue.message);
  }
  throw new ValidationError(errors);
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
