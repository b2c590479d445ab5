import { request as httpRequest } from 'node:http';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  createOpenApiDocument,
  operations,
  type JsonSchema,
  type Operation,
  type OperationId,
} from '@token-vault/contracts';
import { startVault, type RunningVault } from './running-vault.ts';

/**
 * Inputs that often break programs: unusual Unicode, property names of every object, expressions, SQL, extreme
 * numbers.
 */
const nasty = [
  '', ' ', '\0', 'a\0b', '\ud800', '\u202e', 'ﬀİſß', '💳'.repeat(50), '__proto__', 'constructor', 'toString', 'null',
  '{{', '{{ data }}', '{{ data | json: "$..*" }}', '{% for i in (1..99999999) %}x{% endfor %}', '{{ data | nothing }}',
  "'; drop table x; --", '%', '_', '*', '../../etc/passwd', '%00', '%', '-1', '1e999', '999999999999999999999', 'NaN',
  '2020-01-01', '9999-12-31T23:59:59Z', '275760-09-13', '1/1/0001', '12/31/9999 11:59:59 PM -12:00', '/a/', '/A/b_-/', '//',
  'id:"', 'data:a AND (NOT', 'created_at:[2020 TO *}', '"'.repeat(20), '('.repeat(500), 'x'.repeat(500), '\\', '\r\n', '\u007f',
] as const; // prettier-ignore
const numbers = [0, -0, -1, 1, 0.5, 100, 101, 2 ** 31, 2 ** 53, -(2 ** 63), 1e308, 5e-324] as const;

const anyText = fc.oneof(
  fc.constantFrom(...nasty),
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.string({ unit: 'grapheme-ascii', maxLength: 40 }),
);
const anyJson = fc.oneof(
  { maxDepth: 3 },
  anyText,
  fc.constantFrom(...numbers, null, true, false, [], {}),
  fc.jsonValue({ stringUnit: 'binary' }),
);

/** Mostly values of the schema, sometimes any value, so that inputs pass the first check. */
function fromSchema(schema: JsonSchema): fc.Arbitrary<unknown> {
  return fc.oneof({ weight: 9, arbitrary: described(schema) }, { weight: 1, arbitrary: anyJson });
}

function described(schema: JsonSchema): fc.Arbitrary<unknown> {
  const {
    anyOf,
    enum: values,
    const: only,
  } = schema as { anyOf?: JsonSchema[]; enum?: unknown[]; const?: unknown };
  if (anyOf) return fc.oneof(...anyOf.map(fromSchema));
  if (values) return fc.constantFrom(...values);
  if (only !== undefined) return fc.constant(only);
  switch (schema.type) {
    case 'object':
      return describedObject(schema);
    case 'array':
      return fc.array(fromSchema((schema.items ?? {}) as JsonSchema), { maxLength: 3 });
    case 'string':
      return schema.format === 'uuid' ? fc.uuid() : anyText;
    case 'integer':
    case 'number':
      return fc.oneof(fc.integer({ min: 0, max: 20 }), fc.constantFrom(...numbers));
    case 'boolean':
      return fc.boolean();
    default:
      return anyJson;
  }
}

function describedObject(schema: JsonSchema): fc.Arbitrary<unknown> {
  const properties = Object.entries((schema.properties ?? {}) as Record<string, JsonSchema>);
  const required = (schema.required ?? []) as string[];
  const known = fc.record(
    Object.fromEntries(properties.map(([name, property]) => [name, fromSchema(property)])),
    { requiredKeys: required },
  );
  if (schema.additionalProperties === undefined || schema.additionalProperties === false) return known;
  const rest = fc.dictionary(anyText, fromSchema(schema.additionalProperties as JsonSchema), { maxKeys: 4 });
  return fc.tuple(known, rest).map(([first, second]) => ({ ...second, ...first }));
}

interface Parameter {
  readonly $ref?: string;
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly schema: JsonSchema;
}

const document = createOpenApiDocument({ serverUrl: '/', version: '1' });

/** `ANY` stands for several methods: POST, the one with a body. */
function methodOf(id: OperationId): string {
  const { method }: Operation = operations[id];
  return method === 'ANY' ? 'POST' : method;
}

function operationOf(id: OperationId) {
  const path = operations[id].path.replace('*}', '}');
  const method = methodOf(id);
  const operation = document.paths[path]?.[method.toLowerCase()];
  if (!operation) throw new Error(`${id} is not in the document`);
  const resolved = operation.parameters.map((parameter) => {
    const name = (parameter as unknown as Parameter).$ref?.split('/').at(-1);
    return (name === undefined ? parameter : document.components.parameters?.[name]) as Parameter;
  });
  const [content] = Object.values(operation.requestBody?.content ?? {});
  return { parameters: resolved, body: content?.schema };
}

interface Sending {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
}

/** Any bytes of a path segment or query value, mostly with correct percent-encoding. */
const encoded = (value: unknown): string =>
  encodeURIComponent((typeof value === 'string' ? value : (JSON.stringify(value) ?? '')).toWellFormed());
const rawParts = fc.constantFrom(
  '%',
  '%zz',
  '%ff',
  '%00',
  '%ed%a0%80',
  '..',
  '.',
  ';',
  '%2f',
  "'",
  '&&&',
  '=',
);

function valueOf(schema: JsonSchema, ids: readonly string[]): fc.Arbitrary<string> {
  return fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(...ids).map(encoded) },
    { weight: 4, arbitrary: fromSchema(schema).map(encoded) },
    { weight: 1, arbitrary: rawParts },
  );
}

/** A request of an operation. `ids` exist, so that some requests reach existing entities. */
function requestOf(id: OperationId, ids: readonly string[]): fc.Arbitrary<Sending> {
  const operation: Operation = operations[id];
  const { parameters, body } = operationOf(id);
  const inPath = parameters.filter((parameter) => parameter.in === 'path');
  const inQuery = parameters.filter((parameter) => parameter.in === 'query');
  const inHeader = parameters.filter((parameter) => parameter.in === 'header');
  const path = fc
    .tuple(...inPath.map(({ schema }) => valueOf(schema, ids)))
    .map((values) =>
      inPath.reduce((at, { name }, index) => at.replace(`{${name}}`, values[index] ?? ''), operation.path),
    );
  const pair = fc
    .constantFrom(...inQuery.map(({ name }) => name), 'metadata.a', 'metadata.', '__proto__')
    .chain((name) => {
      const schema = inQuery.find((parameter) => parameter.name === name)?.schema ?? {};
      return valueOf((schema.items as JsonSchema | undefined) ?? schema, ids).map(
        (value) => `${name}=${value}`,
      );
    });
  const query = fc
    .array(pair, { maxLength: 4 })
    .map((pairs) => (pairs.length === 0 ? '' : `?${pairs.join('&')}`));
  const headerText = fc.oneof(fc.uuid(), fc.string({ unit: 'grapheme-ascii', maxLength: 300 }));
  const headers = fc.dictionary(fc.constantFrom(...inHeader.map(({ name }) => name)), headerText, {
    maxKeys: 2,
  });
  const contentType = fc.oneof(
    { weight: 9, arbitrary: fc.constant(operation.bodyType ?? 'application/json') },
    {
      weight: 1,
      arbitrary: fc.constantFrom('text/plain', 'application/x-www-form-urlencoded', ';', 'a/b;charset=x'),
    },
  );
  const brokenBody = fc.constantFrom('', '{', 'null', '"x"', '[[[[', '{"a":1,}', '\ufeff{}', '1'.repeat(400));
  const sentBody = body
    ? fc.oneof(
        { weight: 9, arbitrary: fromSchema(body).map((value) => JSON.stringify(value)) },
        { weight: 1, arbitrary: brokenBody },
      )
    : fc.constantFrom(undefined, '', '{}', 'x');
  return fc
    .record({ path, query, headers, contentType, body: sentBody })
    .map(({ path: at, query: by, headers: given, contentType: type, body: text }) => ({
      path: at + by,
      headers: { ...given, 'Content-Type': type },
      body: operation.method === 'GET' ? undefined : text,
    }));
}

interface Reply {
  readonly status: number;
  readonly contentType: string;
  readonly text: string;
}

/** Sends the path unchanged. `fetch` would correct it. */
function send(url: string, method: string, key: string, { path, headers, body }: Sending): Promise<Reply> {
  const { port } = new URL(url);
  return new Promise((resolve, reject) => {
    // Node sets no Content-Length for the body of a DELETE.
    const length = body === undefined ? {} : { 'Content-Length': String(Buffer.byteLength(body)) };
    const allHeaders = { ...headers, ...length, 'SVC-API-KEY': key };
    const options = { host: '127.0.0.1', port, method, path, headers: allHeaders };
    const request = httpRequest(options, (response) => {
      const chunks: Buffer[] = [];
      response
        .on('data', (chunk: Buffer) => chunks.push(chunk))
        .on('end', () =>
          resolve({
            status: response.statusCode ?? 0,
            contentType: response.headers['content-type'] ?? '',
            text: Buffer.concat(chunks).toString('utf8'),
          }),
        );
    });
    request.on('error', reject);
    request.end(body);
  });
}

/** Deletes the tenant that the other operations need. Hostile reactor code is tested in the sandbox suites. */
const leftOut: readonly OperationId[] = ['deleteTenant'];

describe('hostile requests', () => {
  let vault: RunningVault;
  const keys: string[] = [];
  const ids: string[] = [];

  beforeAll(async () => {
    vault = await startVault({ rateLimits: { failuresPerMinute: 0 } });
    keys.push(vault.managementKey);
    for (const [type, verbs] of [
      ['private', ['create', 'read', 'update', 'delete', 'search', 'use']],
      ['public', ['create', 'update']],
    ] as const) {
      const body = { name: type, type, permissions: verbs.map((verb) => `token:${verb}`) };
      const created = await vault.must(201, {
        method: 'POST',
        path: '/applications',
        key: vault.managementKey,
        body,
      });
      keys.push(String(created.key));
    }
    // A separate application, so that changing or deleting it removes no key of the callers.
    const other = { name: 'other', type: 'private', permissions: ['token:read'] };
    const { id } = await vault.must(201, {
      method: 'POST',
      path: '/applications',
      key: vault.managementKey,
      body: other,
    });
    ids.push(String(id));
    const code = 'module.exports = (req) => ({ raw: req.args, tokenize: req.args });';
    const reactor = { name: 'echo', code, configuration: {} };
    const made = await vault.call({
      method: 'POST',
      path: '/reactors',
      key: vault.managementKey,
      body: reactor,
    });
    ids.push(String((made.body as { id?: string }).id));
    for (const type of ['token', 'social_security_number']) {
      const body = { id: `a-${type}`, type, data: '123-45-6789' };
      await vault.must(201, { method: 'POST', path: '/tokens', key: keys[1] ?? '', body });
      ids.push(`a-${type}`);
    }
  });
  afterAll(() => vault.stop());

  const all = (Object.keys(operations) as OperationId[]).filter((id) => !leftOut.includes(id));

  it.each(all)('to %s are answered, and every error is a problem', async (id) => {
    const method = methodOf(id);
    const property = fc.asyncProperty(requestOf(id, ids), fc.constantFrom(...keys), async (sending, key) => {
      const reply = await send(vault.url, method, key, sending);
      // The code of a reactor may fail with its own status; the destination of a proxied request may not answer.
      const isOfOthers =
        id === 'react' || (operations[id].service === 'proxy' && [502, 504].includes(reply.status));
      if (!isOfOthers) expect(reply.status, reply.text).toBeLessThan(500);
      if (reply.status < 400) return;
      expect(reply.contentType).toBe('application/problem+json');
      const problem = JSON.parse(reply.text) as { status: number; detail: string; trace_id: string };
      expect(problem.status).toBe(reply.status);
      expect(problem.trace_id).toBeTypeOf('string');
    });
    await fc.assert(property, {
      numRuns: Number(process.env.FUZZ_RUNS ?? 40),
      interruptAfterTimeLimit: Number(process.env.FUZZ_MS ?? 300),
      endOnFailure: true,
    });
  });

  it('leave every read model live', async () => {
    const ready = await vault.call({ path: '/health/ready' });
    expect(ready.status, ready.text).toBe(200);
    const body = { type: 'token', data: 'after' };
    const { id } = await vault.must(201, { method: 'POST', path: '/tokens', key: keys[1] ?? '', body });
    const reply = await vault.call({ path: `/tokens/${String(id)}`, key: keys[1] ?? '' });
    expect([reply.status, reply.headers.get('svc-consistency')]).toEqual([200, null]);
  });
});
