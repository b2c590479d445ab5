import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { expect } from 'vitest';
import {
  createOpenApiDocument,
  type JsonSchema,
  type OpenApiContent,
  type OpenApiOperation,
  type OperationId,
} from '@token-vault/contracts';
import type { Reply } from './running-vault.ts';

export const document = createOpenApiDocument({ serverUrl: '/', version: '1.0.0' });
export const operationById = new Map<string, OpenApiOperation>(
  Object.values(document.paths).flatMap((methods) =>
    Object.values(methods).map((operation) => [operation.operationId, operation] as const),
  ),
);

const ajv = new Ajv2020({ strict: false, allErrors: true });
addFormats.default(ajv);
ajv.addSchema({ ...document, $id: 'openapi' });

/** A validator of a schema inside the document, so that its references resolve. */
export function validatorOf(schema: JsonSchema): ValidateFunction {
  const absolute = JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"openapi#/')) as object;
  return ajv.compile(absolute);
}

export function resolve<Value>(value: Value | { readonly $ref: string }): Value {
  if (typeof value !== 'object' || value === null || !('$ref' in value)) return value;
  const steps = value.$ref.slice(2).split('/');
  return steps.reduce<unknown>((at, step) => (at as Record<string, unknown>)[step], document) as Value;
}

/** Checks an answer against the document. */
export function expectDocumented(id: OperationId, reply: Reply): void {
  const operation = operationById.get(id);
  const found = operation?.responses[String(reply.status)];
  expect(found, `${id} may answer ${reply.status}: ${reply.text}`).toBeDefined();
  const { content } = resolve(found as Partial<OpenApiContent>);
  const type = reply.headers.get('content-type')?.split(';')[0] ?? '';
  expect(type === '' ? [] : [type]).toEqual(Object.keys(content ?? {}));
  const schema = content?.[type]?.schema;
  if (!schema) return;
  const validate = validatorOf(schema);
  validate(reply.body);
  expect(validate.errors ?? [], `${id} ${reply.status}: ${reply.text}`).toEqual([]);
}
