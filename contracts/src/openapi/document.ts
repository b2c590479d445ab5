import { operations, type Operation, type OperationId } from '../operations/index.ts';
import { operationExamples } from './examples.ts';
import { answerHeaders, headerParameters, parametersOf } from './parameters.ts';
import { errorResponses, responsesOf } from './responses.ts';
import { componentSchemas, schemaOf } from './schemas.ts';
import type { OpenApiBody, OpenApiDocument, OpenApiOperation } from './types.ts';

export interface OpenApiOptions {
  /** Where the vault answers, e.g. `http://localhost:8080`; `/` for wherever the document came from. */
  readonly serverUrl: string;
  readonly version: string;
}

const description = `A multi-tenant data-tokenization vault.

- Every request carries the key of an application or session in the header \`SVC-API-KEY\`.
- Lists are paginated by \`page\` and \`size\`, newest first.
- Errors are problem details (RFC 9457); \`trace_id\` finds the request in the logs.`;

const tags: Readonly<Record<string, string>> = {
  token: 'Sensitive data and its stand-ins.',
  application: 'Callers, their keys, permissions and access rules.',
  session: 'Short-lived keys for browsers and devices.',
  reactor: 'JavaScript that runs inside the vault.',
  transaction: 'Writes that count together or not at all (Enterprise).',
  log: 'Who did what.',
  tenant: 'Settings, webhook secret and usage.',
};

/** `metadata.<key>` cannot be said in OpenAPI: the names of parameters are fixed there. */
const notes: Partial<Record<OperationId, string>> = {
  listTokens: 'Filters by metadata as `metadata.<key>=<value>`, ANDed, case-insensitive.',
  updateToken: 'A merge patch (RFC 7386): null removes.',
  patchReactor: 'A merge patch (RFC 7386): null removes.',
};

function describe(id: OperationId, operation: Operation): string {
  const permission =
    operation.permission === null
      ? 'Any valid key will do.'
      : `Needs the permission \`${operation.permission}\`.`;
  const plan = operation.plan === undefined ? '' : ' Enterprise.';
  return [notes[id], `${permission}${plan}`].filter(Boolean).join('\n\n');
}

function bodyOf(id: OperationId, operation: Operation): OpenApiBody | undefined {
  if (!operation.body) return undefined;
  const example = operationExamples[id]?.body;
  const content = {
    schema: schemaOf(operation.body, 'input'),
    ...(example === undefined ? {} : { examples: { request: { value: example } } }),
  };
  return { required: true, content: { [operation.bodyType ?? 'application/json']: content } };
}

function operationOf(id: OperationId, operation: Operation): OpenApiOperation {
  const requestBody = bodyOf(id, operation);
  return {
    operationId: id,
    summary: operation.summary,
    description: describe(id, operation),
    tags: [operation.entity],
    parameters: parametersOf(operation),
    ...(requestBody ? { requestBody } : {}),
    responses: responsesOf(id, operation, operationExamples[id] ?? {}),
  };
}

/** The OpenAPI 3.1 document of the whole interface, made of the operations table. */
export function createOpenApiDocument({ serverUrl, version }: OpenApiOptions): OpenApiDocument {
  const paths: Record<string, Record<string, OpenApiOperation>> = {};
  for (const [id, operation] of Object.entries(operations) as [OperationId, Operation][]) {
    const methods = (paths[operation.path] ??= {});
    methods[operation.method.toLowerCase()] = operationOf(id, operation);
  }
  return {
    openapi: '3.1.1',
    info: { title: 'Token vault', version, description },
    servers: [{ url: serverUrl }],
    security: [{ ApiKey: [] }],
    tags: Object.entries(tags).map(([name, text]) => ({ name, description: text })),
    paths,
    components: {
      securitySchemes: { ApiKey: { type: 'apiKey', in: 'header', name: 'SVC-API-KEY' } },
      parameters: headerParameters,
      headers: answerHeaders,
      schemas: componentSchemas,
      responses: errorResponses,
    },
  };
}
