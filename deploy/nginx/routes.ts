import { anyMethods, methodsOf, operations, type Operation } from '@token-vault/contracts';

/** The route of a request, and whether it may be sent twice; see `locations` in configuration.ts. */
export type Route = 'query' | 'command' | 'command_once' | 'proxy';

export interface RoutedOperation {
  readonly id: string;
  /** The pattern of the operations map: `<method> <path and query as sent>`. */
  readonly pattern: string;
  readonly route: Route;
  readonly needsKey: boolean;
}

/** The request headers that are passed on to a service. The services check all of them. */
export const forwardedHeaders = [
  'Content-Type',
  'Content-Encoding',
  'SVC-API-KEY',
  'SVC-IDEMPOTENCY-KEY',
  'SVC-TRANSACTION-ID',
  'SVC-POSITION',
  'Prefer',
  'SVC-REASON',
  'SVC-CONSOLE-SESSION',
  'Origin',
  'Sec-Fetch-Site',
  'Accept-Encoding',
  'If-None-Match',
] as const;

/** Express answers HEAD by the route of GET. */
const methodPattern = (method: Operation['method']): string => {
  if (method === 'ANY') return `(${anyMethods.join('|')})`;
  return method === 'GET' ? '(GET|HEAD)' : method;
};

/** Matches paths as Express does: ignores case and a slash at the end, before percent-decoding. */
const pathPattern = (path: string): string =>
  `${path
    .replaceAll('.', '\\.')
    .replace(/\/\{\w+\*\}$/, '(/[^?]*)?')
    .replaceAll(/\{\w+\}/g, '[^/?]+')}/?(\\?|$)`;

function routeOf({ service, method }: Operation): Route {
  if (service !== 'command') return service;
  // nginx treats PUT and DELETE as requests that may be sent twice. Here a second DELETE answers 404, and a second PUT may undo a write of
  // another caller in between.
  return method === 'PUT' || method === 'DELETE' ? 'command_once' : 'command';
}

/** Pages that the query service shows without a key: the document of the interface, its reference, and the console. */
const pages: readonly RoutedOperation[] = [
  {
    id: 'openApiDocument',
    pattern: `(GET|HEAD) ${pathPattern('/openapi.json')}`,
    route: 'query',
    needsKey: false,
  },
  {
    id: 'console',
    pattern: `(GET|HEAD) /(console(/(index\\.html|assets/[A-Za-z0-9._-]+)?)?)?(\\?|$)`,
    route: 'query',
    needsKey: false,
  },
  { id: 'reference', pattern: `(GET|HEAD) /docs(/[a-z0-9.-]+)?/?(\\?|$)`, route: 'query', needsKey: false },
];

const health: readonly RoutedOperation[] = [
  { id: 'health', pattern: `(GET|HEAD) /health/(live|ready)/?(\\?|$)`, route: 'query', needsKey: false },
];

/** In the order of the table, which has the more literal of two overlapping paths first: the first match counts. */
export function routedOperations(options: { readonly exposesHealth: boolean }): readonly RoutedOperation[] {
  const table = Object.entries(operations as Readonly<Record<string, Operation>>);
  return [
    ...table.map(([id, operation]) => ({
      id,
      pattern: `${methodPattern(operation.method)} ${pathPattern(operation.path)}`,
      route: routeOf(operation),
      needsKey: operation.takesProxyKeys !== true,
    })),
    ...pages,
    ...(options.exposesHealth ? health : []),
  ];
}

export interface KnownPath {
  readonly pattern: string;
  /** For the `Allow` header of a 405. */
  readonly methods: string;
}

/** Paths of the table with their methods, for 405: each service knows only its own methods of a path. */
export function knownPaths(): readonly KnownPath[] {
  const methods = new Map<string, string[]>();
  for (const operation of Object.values(operations as Readonly<Record<string, Operation>>))
    methods.set(operation.path, [...(methods.get(operation.path) ?? []), ...methodsOf(operation)]);
  return [...methods].map(([path, allowed]) => ({
    pattern: pathPattern(path),
    methods: allowed.join(', '),
  }));
}
