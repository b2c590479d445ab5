import { methodsOf, operations, type Operation } from '@token-vault/contracts';

export type Service = Operation['service'];

interface Route {
  readonly path: RegExp;
  readonly destinations: ReadonlyMap<string, Destination>;
}

/** Matches as Express does: ignores case and a slash at the end. Parameters are one segment, but for the rest of a path. */
function pathPattern(path: string): RegExp {
  const pattern = path
    .replaceAll('.', '\\.')
    .replace(/\/\{\w+\*\}$/, '(/.*)?')
    .replaceAll(/\{\w+\}/g, '[^/]+');
  return new RegExp(`^${pattern}/?$`, 'i');
}

function routesOfTable(): readonly Route[] {
  const byPath = new Map<string, Map<string, Destination>>();
  for (const operation of Object.values(operations as Readonly<Record<string, Operation>>)) {
    const { path, service } = operation;
    const destination = { service, needsKey: operation.takesProxyKeys !== true };
    const destinations = byPath.get(path) ?? new Map<string, Destination>();
    byPath.set(path, destinations);
    for (const method of methodsOf(operation)) destinations.set(method, destination);
    // Express answers HEAD by the route of GET.
    if (operation.method === 'GET') destinations.set('HEAD', destination);
  }
  return [...byPath].map(([path, destinations]) => ({ path: pathPattern(path), destinations }));
}

const routes = routesOfTable();

/** Public pages of the query service: health, the document of the interface and its pages, the pages of the console. */
const publicPages =
  /^\/((health\/(live|ready)|openapi\.json|docs(\/[a-z0-9.-]+)?)\/?|(console(\/(index\.html|assets\/[\w.-]+)?)?)?)$/i;

export interface Destination {
  readonly service: Service;
  /** Without a key in its header the request is refused here. Keys of proxies may stand elsewhere. */
  readonly needsKey: boolean;
}

/**
 * The target of a request in origin form, `/path?query`; undefined when it has none. A server must accept the absolute form too (RFC 9112,
 * 3.2.2), and no request has a fragment. Services get this form, so that they route by the same text that was checked here.
 */
export function originForm(target: string): string | undefined {
  const [, rest] = /^https?:\/\/[^/?#]*(.*)$/i.exec(target) ?? [undefined, target];
  const origin = rest === '' || rest.startsWith('?') ? `/${rest}` : rest;
  return /^\/[^#\\\s]*$/.test(origin) ? origin : undefined;
}

/**
 * The service that answers a request in origin form. An allow list: the operations of the table and a few pages. Other paths of a service,
 * such as its metrics, are not reachable from outside. The query service knows all methods of every path, for 405.
 */
export function destinationOf(method: string, target: string): Destination | undefined {
  const path = target.split('?', 1)[0] ?? '';
  const matching = routes.filter((route) => route.path.test(path));
  // Where paths overlap, the more literal one comes first; one of them may have a method that the other lacks.
  for (const route of matching) {
    const destination = route.destinations.get(method);
    if (destination) return destination;
  }
  if (matching.length > 0 || publicPages.test(path)) return { service: 'query', needsKey: false };
  return undefined;
}
