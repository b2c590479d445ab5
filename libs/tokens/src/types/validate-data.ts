import { ValidationError, type Json, type TokenType } from '@token-vault/contracts';
import type { z } from 'zod';
import { dataSchemas } from './data-shapes.ts';

/** rules.md §3: data ≤ 512 KiB as JSON. */
const dataLimitBytes = 512 * 1024;

/** 400: the data is too large. When the data was merged with stored data, the error reveals the size of the stored data. */
export class DataTooLargeError extends ValidationError {}

/**
 * The data as it is stored. Fields outside the schema are left out.
 * @throws ValidationError naming the fields. It never quotes a value.
 */
export function validateData(type: TokenType, data: Json, field = 'data'): Json {
  if (Buffer.byteLength(JSON.stringify(data)) > dataLimitBytes) {
    throw new DataTooLargeError({ [field]: ['must be at most 512 KiB as JSON'] });
  }
  const schema = dataSchemas[type];
  if (!schema) return data;
  const result = schema.safeParse(data, { error: messageOf });
  if (result.success) return compact(result.data);
  const errors: Record<string, string[]> = {};
  for (const issue of result.error.issues) {
    const path = [field, ...issue.path.map(String)].join('.');
    (errors[path] ??= []).push(issue.message);
  }
  throw new ValidationError(errors);
}

/** Messages of zod may quote the received value, so the vault uses its own. Those of the shapes come first. */
function messageOf(issue: z.core.$ZodRawIssue): string {
  if (issue.code !== 'invalid_type') return 'is not valid';
  if (issue.input === undefined) return 'is required';
  return issue.expected === 'int' ? 'must be a whole number' : `must be ${article(issue.expected)}`;
}

const article = (kind: string): string => (/^[aeiou]/.test(kind) ? `an ${kind}` : `a ${kind}`);

/** The data without undefined fields. */
function compact(data: string | Record<string, string | number | undefined>): Json {
  if (typeof data === 'string') return data;
  return Object.fromEntries(
    Object.entries(data).filter((entry): entry is [string, string | number] => entry[1] !== undefined),
  );
}
