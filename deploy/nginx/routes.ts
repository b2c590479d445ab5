import { operations, type Operation } from '@token-vault/contracts';

/** Where a request goes, and how freely it may be sent twice; see `locations` in configuration.ts. */
export type Route = 'query' | 'command' | 'command_once';

export interface RoutedOperation {
  readonly id: string;
  /** What the operations map matches: `<method> <path and query as sent>`. */
  readonly pattern: string;
  readonly route: Route;
  readonly needsKey: boolean;
}

/** The last request header of this list that a service reads decides nothing by itself: all are checked there. */
export const forwardedHeaders = [
  'Content-Type',
  'Content-Encoding',
  'SVC-API-KEY',
  'SVC-IDEMPOTENCY-KEY',
  'SVC-TRANSACTION-ID',
  'SVC-POSITION',
  'Prefer',
] as const;

/** Express answers HEAD by the route of GET. */
const methodPattern = (method: string): string => (method === 'GET' ? '(GET|HEAD)' : method);

/** As Express matches paths: whatever the case, with or without a slash at the end, before percent-decoding. */
const pathPattern = (path: string): string =>
  `${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/?]+')}/?(\\?|$)`;

function routeOf({ service, method }: Operation): Route {
  if (service === 'query') return 'query';
  // nginx counts PUT and DELETE among what may be sent twice. Here a second DELETE answers 404, and a second PUT may
  // undo what somebody else wrote in between.
  return method === 'PUT' || method === 'DELETE' ? 'command_once' : 'command';
}

/** Pages that the query service shows to anybody: the document of the interface, and its reference. */
const pages: readonly RoutedOperation[] = [
  {
    id: 'openApiDocument',
    pattern: `(GET|HEAD) ${pathPattern('/openapi.json')}`,
    route: 'query',
    needsKey: false,
  },
  { id: 'reference', pattern: `(GET|HEAD) /docs(/[a-z0-9.-]+)?/?(\\?|$)`, route: 'query', needsKey: false },
];

const health: readonly RoutedOperation[] = [
  { id: 'health', pattern: `(GET|HEAD) /health/(live|ready)/?(\\?|$)`, route: 'query', needsKey: false },
];

/** In the order of the table, which puts the more literal of two overlapping paths first: the first match counts. */
export function routedOperations(options: { readonly exposesHealth: boolean }): readonly RoutedOperation[] {
  const table = Object.entries(operations as Readonly<Record<string, Operation>>);
  return [
    ...table.map(([id, operation]) => ({
      id,
      pattern: `${methodPattern(operation.method)} ${pathPattern(operation.path)}`,
      route: routeOf(operation),
      needsKey: true,
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

/** Paths of the table with the methods they have, for 405 where neither service knows the whole list. */
export function knownPaths(): readonly KnownPath[] {
  const methods = new Map<string, string[]>();
  for (const { method, path } of Object.values(operations as Readonly<Record<string, Operation>>))
    methods.set(path, [...(methods.get(path) ?? []), method]);
  return [...methods].map(([path, allowed]) => ({
    pattern: pathPattern(path),
    methods: allowed.join(', '),
  }));
}
