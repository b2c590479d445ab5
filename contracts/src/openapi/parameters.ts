import type { z } from 'zod';
import type { Operation } from '../operations/definition.ts';
import { schemaOf } from './schemas.ts';
import type { JsonSchema } from './types.ts';

type Parameter = Readonly<Record<string, unknown>>;

const uuid = { type: 'string', format: 'uuid' };

/** Request headers, by the name under which operations refer to them. */
export const headerParameters: Readonly<Record<string, Parameter>> = {
  TraceId: {
    name: 'SVC-TRACE-ID',
    in: 'header',
    description: 'Returned in the answer and written to the log; the vault makes one when it is missing.',
    schema: { type: 'string', maxLength: 128 },
  },
  Position: {
    name: 'SVC-POSITION',
    in: 'header',
    description:
      'A position that an earlier answer gave: the answer waits until it is visible, up to 2 s (then 503).',
    schema: { type: 'string', pattern: '^(0|[1-9][0-9]{0,19})$' },
  },
  IdempotencyKey: {
    name: 'SVC-IDEMPOTENCY-KEY',
    in: 'header',
    description:
      'The first successful answer to this key, from this caller, to this method and path is given again for 24 hours. 409 while it runs.',
    schema: { type: 'string', maxLength: 255 },
  },
  TransactionId: {
    name: 'SVC-TRANSACTION-ID',
    in: 'header',
    description: 'Enterprise. Makes the write part of this open transaction.',
    schema: uuid,
  },
  ProxyUrl: {
    name: 'SVC-PROXY-URL',
    in: 'header',
    required: true,
    description: 'Where the request goes: an https URL. Its query comes before that of the request.',
    schema: { type: 'string', maxLength: 2000 },
  },
  ProxyKey: {
    name: 'svc-proxy-key',
    in: 'query',
    description:
      'A key of the proxy, for callers that cannot set headers. It is not sent to the destination.',
    schema: { type: 'string', maxLength: 100 },
  },
  Reason: {
    name: 'SVC-REASON',
    in: 'header',
    description:
      'The reason of the request. Kept in the log, and needed where a rule has `"reason": "required"` or `"break_glass": true`. No control characters.',
    schema: { type: 'string', maxLength: 200 },
  },
  Prefer: {
    name: 'Prefer',
    in: 'header',
    description: '`respond-async`: do not wait until the write is visible to reads.',
    schema: { type: 'string' },
  },
};

/** Answer headers, by the name under which operations refer to them. */
export const answerHeaders: Readonly<Record<string, Parameter>> = {
  TraceId: { description: 'The trace id of the request.', schema: { type: 'string' } },
  Position: {
    description: 'The position of the write in the log; see the request header.',
    schema: { type: 'string' },
  },
  Consistency: {
    description: '`pending` when reads may not show the write yet.',
    schema: { type: 'string', enum: ['pending'] },
  },
  RateLimit: {
    description:
      'The remaining requests of the limit and the time until its reset (draft-ietf-httpapi-ratelimit-headers).',
    schema: { type: 'string' },
  },
  RateLimitPolicy: { description: 'The limit and its window in seconds.', schema: { type: 'string' } },
  ProxyStatus: {
    description: "The status of the destination's answer; absent when the vault itself answered.",
    schema: { type: 'string' },
  },
  InvocationId: {
    description: 'The id of the run, as soon as the run is in the log; also with an error of the run.',
    schema: uuid,
  },
  InvocationLocation: {
    description: 'The path of the run, unless the code of the reactor chose another location.',
    schema: { type: 'string' },
  },
  RetryAfter: {
    description: 'Seconds after which to try again; of 409 only while the idempotency key is in flight.',
    schema: { type: 'integer', minimum: 1 },
  },
};

const whole = (minimum: number, rest: object): JsonSchema => ({ type: 'integer', minimum, ...rest });

/** The values are sent as texts; the schema describes the numbers. */
const pagingSchemas: Readonly<Record<string, JsonSchema>> = {
  page: whole(1, { maximum: 999_999_999, default: 1 }),
  size: whole(0, { maximum: 100, default: 20 }),
};

function objectParameters(object: z.ZodType, place: 'path' | 'query'): Parameter[] {
  const propertiesOf = (io: 'input' | 'output') =>
    (schemaOf(object, io).properties ?? {}) as Readonly<Record<string, JsonSchema>>;
  const parsed = propertiesOf('output');
  return Object.entries(propertiesOf('input')).map(([name, property]) => {
    const isRepeatable = property.type === 'array';
    // A repeated parameter has the schema of one parsed item.
    const schema = isRepeatable ? (parsed[name] ?? property) : property;
    return {
      name,
      in: place,
      ...(place === 'path' ? { required: true } : {}),
      schema: (place === 'query' ? pagingSchemas[name] : undefined) ?? schema,
      // Sent as repeated parameters: `?id=a&id=b`.
      ...(isRepeatable ? { style: 'form', explode: true } : {}),
    };
  });
}

function headersOf(operation: Operation): string[] {
  if (operation.isRaw) return ['TraceId', 'Reason', operation.takesProxyKeys ? 'ProxyKey' : 'ProxyUrl'];
  const isCommand = operation.service === 'command';
  return [
    'TraceId',
    'Reason',
    ...(isCommand ? ['Prefer'] : ['Position']),
    ...(['POST', 'PUT', 'PATCH'].includes(operation.method) ? ['IdempotencyKey'] : []),
    ...(operation.isEnlistable ? ['TransactionId'] : []),
  ];
}

export function parametersOf(operation: Operation): Parameter[] {
  const { params, query } = operation;
  return [
    ...(params ? objectParameters(params, 'path') : []),
    ...(query ? objectParameters(query, 'query') : []),
    ...headersOf(operation).map((name) => ({ $ref: `#/components/parameters/${name}` })),
  ];
}
