import { problems } from '@token-vault/contracts';

/** An answer that the gateway gives itself, in the form of the services' problem details. */
interface GatewayProblem {
  /** The name of the location. */
  readonly location: string;
  /** The status codes of nginx that it replaces. */
  readonly codes: readonly number[];
  readonly status: number;
  readonly type: string;
  readonly title: string;
  readonly detail: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The error occurs before nginx knows the path. Then a named location cannot be used (nginx would answer 500). */
  readonly isEarly?: true;
}

const retryAfter = { 'Retry-After': '1' };

const unavailable = {
  status: problems.unavailable.status,
  type: 'unavailable',
  title: problems.unavailable.title,
  detail: 'No service of the vault answers now. Nothing was done; try again.',
};

const outcomeUnknown = {
  type: 'outcome-unknown',
  detail:
    'The vault did not answer in time: the write may have been done or not. Repeat it with the same SVC-IDEMPOTENCY-KEY.',
};

/** Status codes that only nginx uses and no client sees: 471–474 select the route of a request, 494 means that a header is too large. */
const gatewayProblems: readonly GatewayProblem[] = [
  {
    location: 'malformed',
    codes: [400],
    isEarly: true,
    status: 400,
    type: 'validation-failed',
    title: problems.validation_failed.title,
    detail: 'The request is not valid HTTP.',
  },
  {
    location: 'unauthenticated',
    codes: [401],
    status: 401,
    type: 'unauthenticated',
    title: problems.unauthenticated.title,
    detail: 'The SVC-API-KEY header is missing or its key is not valid.',
  },
  {
    location: 'unknown_path',
    codes: [404],
    status: 404,
    type: 'not-found',
    title: problems.not_found.title,
    detail: 'There is nothing at this path.',
  },
  {
    location: 'unknown_method',
    codes: [405],
    status: 405,
    type: 'method-not-allowed',
    title: problems.method_not_allowed.title,
    detail: 'Allowed here: $vault_allow.',
    headers: { Allow: '$vault_allow' },
  },
  {
    location: 'too_slow',
    codes: [408],
    isEarly: true,
    status: 408,
    type: 'request-timeout',
    title: 'Request Timeout',
    detail: 'The request did not arrive in time.',
  },
  {
    location: 'too_large',
    codes: [413],
    status: 413,
    type: 'payload-too-large',
    title: problems.payload_too_large.title,
    detail: 'The request body is larger than it may be here.',
  },
  {
    location: 'uri_too_long',
    codes: [414],
    isEarly: true,
    status: 414,
    type: 'uri-too-long',
    title: 'URI Too Long',
    detail: 'The path and the query are too long.',
  },
  {
    location: 'too_many',
    codes: [429],
    status: 429,
    type: 'rate-limited',
    title: problems.rate_limited.title,
    detail: 'Too many requests of this address at once.',
    headers: retryAfter,
  },
  {
    location: 'header_too_large',
    codes: [494],
    isEarly: true,
    status: 431,
    type: 'header-too-large',
    title: 'Request Header Fields Too Large',
    detail: 'The request headers are too large.',
  },
  {
    location: 'internal',
    codes: [500],
    isEarly: true,
    status: 500,
    type: 'internal',
    title: problems.internal.title,
    detail: 'Something went wrong inside the gateway. The trace id finds it in the logs.',
  },
  {
    location: 'not_implemented',
    codes: [501],
    isEarly: true,
    status: 501,
    type: 'not-implemented',
    title: 'Not Implemented',
    detail: 'The only transfer coding that is known is chunked.',
  },
  {
    location: 'http_version',
    codes: [505],
    isEarly: true,
    status: 505,
    type: 'http-version-not-supported',
    title: 'HTTP Version Not Supported',
    detail: 'The version of HTTP is not known.',
  },
  {
    location: 'bad_gateway',
    codes: [502],
    ...outcomeUnknown,
    status: 502,
    title: 'Bad Gateway',
    headers: retryAfter,
  },
  {
    location: 'gateway_timeout',
    codes: [504],
    ...outcomeUnknown,
    status: 504,
    title: 'Gateway Timeout',
    headers: retryAfter,
  },
];

/** `$vault_instance` and `$vault_own_trace_id` contain no characters that JSON must escape. */
function bodyOf({
  type,
  title,
  status,
  detail,
}: Pick<GatewayProblem, 'type' | 'title' | 'status' | 'detail'>) {
  return JSON.stringify({
    type: `urn:token-vault:problem:${type}`,
    title,
    status,
    detail,
    instance: '$vault_instance',
    trace_id: '$vault_own_trace_id',
  });
}

const nameOf = ({ location, isEarly }: GatewayProblem): string =>
  isEarly ? `/.problem/${location}` : `@${location}`;

const errorPage = (problem: GatewayProblem): string =>
  `error_page ${problem.codes.join(' ')} = ${nameOf(problem)};`;

export const errorPages: readonly string[] = gatewayProblems.map(errorPage);

/**
 * The headers of every answer that the gateway gives itself. `add_header` of an outer level does not apply to a location that has its own.
 */
function headersOf(problem: GatewayProblem, alwaysHeaders: readonly string[]): string[] {
  const headers = {
    'SVC-TRACE-ID': '$vault_own_trace_id',
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    ...problem.headers,
  };
  return [
    ...alwaysHeaders,
    ...Object.entries(headers).map(([name, value]) => `add_header ${name} "${value}" always;`),
  ];
}

const wrongHost: GatewayProblem = {
  location: 'misdirected',
  codes: [421],
  isEarly: true,
  status: 421,
  type: 'misdirected-request',
  title: 'Misdirected Request',
  detail: 'This is not the host of the request.',
};

/** @param alwaysHeaders `add_header` lines that all answers of the server carry */
export function problemLocations(
  alwaysHeaders: readonly string[],
  among: readonly GatewayProblem[] = gatewayProblems,
): readonly string[] {
  return among.flatMap((problem) => [
    `location ${problem.isEarly ? '= ' : ''}${nameOf(problem)} {`,
    ...(problem.isEarly ? ['  internal;'] : []),
    '  default_type application/problem+json;',
    ...headersOf(problem, alwaysHeaders).map((line) => `  ${line}`),
    ...(problem.type === 'outcome-unknown'
      ? [`  if ($vault_failure = unavailable) {`, `    return 503 '${bodyOf(unavailable)}';`, '  }']
      : []),
    `  return ${problem.status} '${bodyOf(problem)}';`,
    '}',
    '',
  ]);
}

/** For the server of all other host names. */
export const misdirected = {
  errorPages: [errorPage(wrongHost)],
  locations: problemLocations([], [wrongHost]),
};
