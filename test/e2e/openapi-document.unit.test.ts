import { Validator } from '@seriousme/openapi-schema-validator';
import {
  anyMethods,
  operations,
  type OpenApiContent,
  type Operation,
  type OperationId,
} from '@token-vault/contracts';
import { describe, expect, it } from 'vitest';
import { document, operationById, resolve, validatorOf } from './openapi-document.ts';

const named = (method: string): string => method.charAt(0) + method.slice(1).toLowerCase();

describe('the document', () => {
  it('is valid OpenAPI 3.1 and has every operation of the table once', async () => {
    const copy = JSON.parse(JSON.stringify(document)) as Record<string, unknown>;
    const result = await new Validator().validate(copy);
    expect(result).toMatchObject({ valid: true });
    const ids = (Object.entries(operations) as [string, Operation][]).flatMap(([id, operation]) =>
      operation.method === 'ANY' ? anyMethods.map((method) => `${id}${named(method)}`) : [id],
    );
    expect([...operationById.keys()].sort()).toEqual(ids.sort());
  });

  it('has for every operation with a body, and every answer with one, an example that is valid', () => {
    for (const [id, operation] of operationById) {
      // The document cannot describe answers of other servers.
      if (/^(proxy|invokeProxy)/.test(id)) continue;
      const bodies = [
        operation.requestBody,
        resolve(operation.responses[String(operations[id as OperationId].success)]),
      ];
      for (const body of bodies as (Partial<OpenApiContent> | undefined)[]) {
        for (const { schema, examples } of Object.values(body?.content ?? {})) {
          const [example] = Object.values(examples ?? {}) as { value: unknown }[];
          expect(example, `${id} has an example`).toBeDefined();
          const validate = validatorOf(schema);
          validate(example?.value);
          expect(validate.errors ?? [], id).toEqual([]);
        }
      }
    }
  });

  it('has examples of requests that the vault itself accepts', () => {
    for (const [id, { requestBody }] of operationById) {
      if (/^(proxy|invokeProxy)/.test(id)) continue;
      const { body } = operations[id as OperationId] as {
        body?: { safeParse(value: unknown): { success: boolean } };
      };
      for (const { examples } of Object.values(requestBody?.content ?? {}))
        for (const { value } of Object.values(examples ?? {}) as { value: unknown }[])
          expect(body?.safeParse(value).success, id).toBe(true);
    }
  });
});
