import { methodsOf, operations, type Operation } from '@token-vault/contracts';

export type Service = Operation['service'];

interface Route {
  readonly path: RegExp;
  readonly services: ReadonlyMap<string, Service>;
}

/** Matches as Express does: ignores case and a slash at the end. Parameters are one segment. */
function pathPattern(path: string): RegExp {
  return new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}/?$`, 'i');
}

function routesOfTable(): readonly Route[] {
  const byPath = new Map<string, Map<string, Service>>();
  for (const operation of Object.values(operations as Readonly<Record<string, Operation>>)) {
    const { path, service } = operation;
    const services = byPath.get(path) ?? new Map<string, Service>();
    byPath.set(path, services);
    for (const method of methodsOf(operation)) services.set(method, service);
    // Express answers HEAD by the route of GET.
    if (operation.method === 'GET') services.set('HEAD', service);
  }
  return [...byPath].map(([path, services]) => ({ path: pathPattern(path), services }));
}

const routes = routesOfTable();

/** Public pages of the query service: health, the document of the interface and its pages. */
const publicPages = /^\/(health\/(live|ready)|openapi\.json|docs(\/[a-z0-9.-]+)?)\/?$/i;

export interface Destination {
  readonly service: Service;
  /** The operations of the table need a key. */
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
    const service = route.services.get(method);
    if (service) return { service, needsKey: true };
  }
  if (matching.length > 0 || publicPages.test(path)) return { service: 'query', needsKey: false };
  return undefined;
}
