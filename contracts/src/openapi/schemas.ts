import { z } from 'zod';
import { application } from '../api/applications.ts';
import { logEntry } from '../api/logs.ts';
import { pagination } from '../api/paging.ts';
import { reactor } from '../api/reactors.ts';
import { session, tenant, transaction, usageReport } from '../api/tenants.ts';
import { token } from '../api/tokens.ts';
import type { JsonSchema } from './types.ts';

const problem: JsonSchema = {
  type: 'object',
  description: 'Problem details (RFC 9457).',
  properties: {
    type: { type: 'string', format: 'uri' },
    title: { type: 'string' },
    status: { type: 'integer' },
    detail: { type: 'string' },
    instance: { type: 'string', description: 'The path of the request.' },
    trace_id: { type: 'string' },
    errors: {
      type: 'object',
      description: 'The messages of each invalid field, by its dotted path.',
      additionalProperties: { type: 'array', items: { type: 'string' } },
    },
  },
  required: ['type', 'title', 'status', 'detail', 'instance', 'trace_id'],
};

const isObject = (value: unknown): value is JsonSchema =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A longer pattern only repeats `format`. */
const longestPattern = 80;

/** Removes details that zod adds and readers do not need. */
function tidy(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(tidy);
  if (!isObject(value)) return value;
  const { $schema: _dialect, pattern, minimum, maximum, minLength, propertyNames, ...rest } = value;
  return {
    ...Object.fromEntries(Object.entries(rest).map(([name, child]) => [name, tidy(child)])),
    ...(typeof pattern === 'string' && pattern.length <= longestPattern ? { pattern } : {}),
    ...(minimum === undefined || minimum === Number.MIN_SAFE_INTEGER ? {} : { minimum }),
    ...(maximum === undefined || maximum === Number.MAX_SAFE_INTEGER ? {} : { maximum }),
    ...(minLength === undefined || minLength === 0 ? {} : { minLength }),
    ...(isObject(propertyNames) && Object.keys(propertyNames).length > 1
      ? { propertyNames: tidy(propertyNames) }
      : {}),
  };
}

/** The JSON Schema of the values that a zod schema accepts (`input`) or that an answer holds (`output`). */
export function schemaOf(schema: z.ZodType, io: 'input' | 'output'): JsonSchema {
  // Unknown fields of a body are refused (rules.md §1).
  const override = ({ jsonSchema }: { jsonSchema: Record<string, unknown> }) => {
    if (io === 'input' && isObject(jsonSchema.properties)) jsonSchema.additionalProperties ??= false;
  };
  return tidy(z.toJSONSchema(schema, { io, unrepresentable: 'any', override: override })) as JsonSchema;
}

const resources = {
  Token: token,
  Application: application,
  Reactor: reactor,
  Transaction: transaction,
  Session: session,
  Tenant: tenant,
  LogEntry: logEntry,
  Pagination: pagination,
  UsageReport: usageReport,
} as const;

const resourceSchemas = Object.entries(resources).map(
  ([name, schema]) => [name, schemaOf(schema, 'output')] as const,
);
const nameByText = new Map(resourceSchemas.map(([name, schema]) => [JSON.stringify(schema), name]));

/** The schemas that operations refer to by name. */
export const componentSchemas: Readonly<Record<string, JsonSchema>> = {
  ...Object.fromEntries(resourceSchemas),
  Problem: problem,
};

/** Replaces each resource schema by a reference to it. */
export function withReferences(schema: JsonSchema): JsonSchema {
  const refer = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(refer);
    if (!isObject(value)) return value;
    const name = nameByText.get(JSON.stringify(value));
    if (name !== undefined) return { $ref: `#/components/schemas/${name}` };
    return Object.fromEntries(Object.entries(value).map(([key, child]) => [key, refer(child)]));
  };
  return refer(schema) as JsonSchema;
}
