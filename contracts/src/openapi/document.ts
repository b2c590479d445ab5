import { methodsOf, operations, type Operation, type OperationId } from '../operations/index.ts';
import { operationExamples } from './examples.ts';
import { answerHeaders, headerParameters, parametersOf } from './parameters.ts';
import { errorResponses, responsesOf } from './responses.ts';
import { componentSchemas, schemaOf } from './schemas.ts';
import type { OpenApiBody, OpenApiDocument, OpenApiOperation } from './types.ts';

export interface OpenApiOptions {
  /** The address of the vault, e.g. `http://localhost:8080`; `/` means the server that the document was loaded from. */
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
  proxy: 'Requests to other servers, with data in place of tokens.',
  transaction: 'Writes that count together or not at all (Enterprise).',
  log: 'Who did what.',
  tenant: 'Settings, webhook secret and usage.',
};

/** OpenAPI cannot describe `metadata.<key>`, because its parameter names are fixed. A note describes it. */
const notes: Partial<Record<OperationId, string>> = {
  listTokens: 'Filters by metadata as `metadata.<key>=<value>`, ANDed, case-insensitive.',
  updateToken: 'A merge patch (RFC 7386): null removes.',
  patchReactor: 'A merge patch (RFC 7386): null removes.',
  getInvocation:
    'For an hour after the run it has in `console` the lines that the code printed. No lines are kept of a run that could see tokens: `console_withheld` says so.',
  patchProxy: 'A merge patch (RFC 7386): null removes.',
  invokeProxy:
    'Like `/proxy`, to the destination of the proxy: `path` (which may have slashes, or be absent) and the query are appended to it, and its transforms change request and answer. A key of the proxy may stand in `svc-proxy-key` of the query instead of `SVC-API-KEY`; neither is needed where the proxy has `require_auth: false`.',
  proxy:
    "Method, query, headers and body go on to `SVC-PROXY-URL` (but `SVC-*`, cookies, and what is of the connection). Each `{{ <token id> | filters }}` in values of the query, in headers, and in a body of JSON, a form, XML or text is replaced by data. The answer comes back with `SVC-PROXY-STATUS`; an error without it is the vault's own. Bodies have up to 16 MiB each way.",
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
  if (operation.isRaw) return { required: false, content: { '*/*': { schema: {} } } };
  if (!operation.body) return undefined;
  const example = operationExamples[id]?.body;
  const content = {
    schema: schemaOf(operation.body, 'input'),
    ...(example === undefined ? {} : { examples: { request: { value: example } } }),
  };
  const required = !operation.body.safeParse(undefined).success;
  return { required, content: { [operation.bodyType ?? 'application/json']: content } };
}

/** @param method for an operation with all methods, each method gives an operation id of its own, such as `proxyPost` */
function operationOf(id: OperationId, operation: Operation, method: string): OpenApiOperation {
  const requestBody = /^(get|head)$/.test(method) ? undefined : bodyOf(id, operation);
  const suffix = operation.method === 'ANY' ? method.charAt(0).toUpperCase() + method.slice(1) : '';
  return {
    operationId: id + suffix,
    summary: operation.summary,
    description: describe(id, operation),
    tags: [operation.entity],
    parameters: parametersOf(operation),
    ...(requestBody ? { requestBody } : {}),
    responses: responsesOf(id, operation, operationExamples[id] ?? {}),
  };
}

/** The OpenAPI 3.1 document of the whole interface, derived from the operations table. */
export function createOpenApiDocument({ serverUrl, version }: OpenApiOptions): OpenApiDocument {
  const paths: Record<string, Record<string, OpenApiOperation>> = {};
  for (const [id, operation] of Object.entries(operations) as [OperationId, Operation][]) {
    const methods = (paths[operation.path.replace('*}', '}')] ??= {});
    for (const method of methodsOf(operation).map((each) => each.toLowerCase()))
      methods[method] = operationOf(id, operation, method);
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
