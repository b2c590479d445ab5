import { STATUS_CODES } from 'node:http';
import { readsBody, type Operation, type OperationId } from '../operations/index.ts';
import { problems } from '../problems.ts';
import type { OperationExamples } from './examples.ts';
import { schemaOf, withReferences } from './schemas.ts';
import type { OpenApiResponse } from './types.ts';

const headerReferences = (...names: [header: string, component: string][]) =>
  Object.fromEntries(names.map(([header, name]) => [header, { $ref: `#/components/headers/${name}` }]));

const always = headerReferences(
  ['SVC-TRACE-ID', 'TraceId'],
  ['RateLimit', 'RateLimit'],
  ['RateLimit-Policy', 'RateLimitPolicy'],
);
const position = headerReferences(['SVC-POSITION', 'Position']);
const run = headerReferences(['SVC-INVOCATION-ID', 'InvocationId'], ['Location', 'InvocationLocation']);
const consistency = headerReferences(['SVC-CONSISTENCY', 'Consistency']);

function headersOf({ service, path, isLoggedOnly }: Operation) {
  if (service === 'query') return path === '/logs' ? { ...always, ...consistency } : always;
  return { ...always, ...position, ...(isLoggedOnly ? {} : consistency) };
}

const errorDescriptions: Readonly<Record<number, string>> = {
  400: 'The body, query, id or an expression is not valid; `errors` names every field at fault.',
  401: 'The key is missing, unknown, expired, deleted or regenerated.',
  403: 'The permission is missing, no access rule grants it, or the plan lacks it.',
  404: 'There is no such entity in this tenant.',
  409: 'The id is taken, the token is locked, the idempotency key is in flight, or the transaction is not open; `transaction-full`: it holds 10,000 tokens, 40,000 writes or 32 MiB; `too-many-transactions`: 20 of the application are open.',
  413: 'The body is larger than 1 MiB.',
  415: 'The Content-Type of a PATCH is not application/merge-patch+json, or the body is compressed.',
  422: 'The code does not compile or does not export a function; or the value of a token cannot stand in a header.',
  429: 'Too many requests.',
  431: 'The URL and the headers together are larger than 16 KiB.',
  500: 'Something went wrong inside the vault.',
  502: 'The destination could not be reached, closed the connection before it answered, or answered with more than 16 MiB. It may have acted.',
  504: 'The destination did not answer in time. It may have acted.',
  503: 'The event store, database or audit is unavailable; nothing was done.',
};

const titles = new Map<number, string>(Object.values(problems).map(({ status, title }) => [status, title]));
const codes = new Map<number, string>();
for (const [code, { status }] of Object.entries(problems)) if (!codes.has(status)) codes.set(status, code);

function exampleOf(status: number): object {
  const code = codes.get(status);
  return {
    // A request that the HTTP parser refuses has no problem type of the vault.
    type: code === undefined ? 'about:blank' : `urn:token-vault:problem:${code.replaceAll('_', '-')}`,
    title: titles.get(status) ?? STATUS_CODES[status],
    status,
    detail: errorDescriptions[status],
    instance: '/tokens',
    trace_id: '0b7b6f5e-9d3a-4a52-a8a5-0d9d4f2f6f10',
    ...(status === 400 ? { errors: { 'metadata.color': ['must be text'] } } : {}),
  };
}

function errorResponse(status: number): OpenApiResponse {
  return {
    description: errorDescriptions[status] ?? '',
    headers: {
      ...always,
      ...([409, 429, 503].includes(status) ? headerReferences(['Retry-After', 'RetryAfter']) : {}),
    },
    content: {
      'application/problem+json': {
        schema: { $ref: '#/components/schemas/Problem' },
        examples: { problem: { value: exampleOf(status) } },
      },
    },
  };
}

const errorName = (status: number): string => `Error${status}`;

/** One answer for each error status. All operations refer to these. */
export const errorResponses: Readonly<Record<string, OpenApiResponse>> = Object.fromEntries(
  Object.keys(errorDescriptions).map((status) => [errorName(Number(status)), errorResponse(Number(status))]),
);

function errorStatuses(operation: Operation): number[] {
  if (operation.isRaw)
    return [400, 401, 403, ...(operation.params ? [404, 409] : []), 413, 422, 429, 431, 500, 502, 503, 504];
  const isWriting = operation.method !== 'GET';
  const isRefusable =
    operation.permission !== null || operation.plan !== undefined || operation.entity === 'session';
  return [
    400,
    401,
    ...(isRefusable ? [403] : []),
    ...(operation.params || isWriting || operation.entity === 'session' ? [404] : []),
    ...(isWriting ? [409] : []),
    ...(readsBody(operation) ? [413, 415] : []),
    ...(['reactor', 'proxy'].includes(operation.entity) && operation.body ? [422] : []),
    429,
    431,
    500,
    503,
  ];
}

function success(operation: Operation, description: string, examples: OperationExamples): OpenApiResponse {
  const headers = { ...headersOf(operation), ...(operation.path === '/reactors/{id}/react' ? run : {}) };
  if (operation.isRaw) {
    const told = headerReferences(['SVC-PROXY-STATUS', 'ProxyStatus']);
    return {
      description: 'The answer of the destination, with any status.',
      headers: { ...headers, ...told },
    };
  }
  if (!operation.response) return { description, headers };
  const schema = withReferences(schemaOf(operation.response, 'output'));
  const named = examples.response === undefined ? {} : { examples: { answer: { value: examples.response } } };
  return { description, headers, content: { 'application/json': { schema, ...named } } };
}

/** The answers of an operation other than its usual success. */
function otherAnswers(id: OperationId, operation: Operation, examples: OperationExamples) {
  const { response: _answered, ...empty } = operation;
  if (id === 'createToken') return { 200: success(operation, 'Deduplicated: the existing token.', examples) };
  if (id !== 'react') return {};
  return {
    202: success(empty, 'Accepted: the result will be sent to callback_url.', {}),
    default: {
      description:
        "What the reactor's code answered with: an error of its own, or a response of its own making.",
      headers: { ...always, ...run },
    },
  };
}

export function responsesOf(
  id: OperationId,
  operation: Operation,
  examples: OperationExamples,
): Record<string, OpenApiResponse> {
  const errors = errorStatuses(operation).map(
    (status) => [status, { $ref: `#/components/responses/${errorName(status)}` }] as const,
  );
  return {
    [operation.success]: success(operation, operation.summary, examples),
    ...otherAnswers(id, operation, examples),
    ...Object.fromEntries(errors),
  };
}
