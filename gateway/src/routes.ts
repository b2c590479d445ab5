import { operations, type Operation } from '@token-vault/contracts';

export type Service = Operation['service'];

interface Route {
  readonly path: RegExp;
  readonly services: ReadonlyMap<string, Service>;
}

/** As Express matches: whatever the case, with or without a slash at the end. Parameters are one segment. */
function pathPattern(path: string): RegExp {
  return new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}/?$`, 'i');
}

function routesOfTable(): readonly Route[] {
  const byPath = new Map<string, Map<string, Service>>();
  for (const { method, path, service } of Object.values(operations as Readonly<Record<string, Operation>>)) {
    const services = byPath.get(path) ?? new Map<string, Service>();
    byPath.set(path, services.set(method, service));
    // Express answers HEAD by the route of GET.
    if (method === 'GET') services.set('HEAD', service);
  }
  return [...byPath].map(([path, services]) => ({ path: pathPattern(path), services }));
}

const routes = routesOfTable();

/**
 * Which service answers a request, by the operations table. The query service has what is not in it (health, the document of
 * the interface, 404) and knows all methods of every path, for 405. Undefined for what is nobody's from outside.
 */
export function serviceOf(method: string, target: string): Service | undefined {
  const path = target.split('?', 1)[0] ?? '';
  if (/^\/metrics\/?$/i.test(path)) return undefined;
  // Where paths overlap the more literal one comes first, and one of them may have the method that another lacks.
  for (const route of routes) {
    const service = route.path.test(path) ? route.services.get(method) : undefined;
    if (service) return service;
  }
  return 'query';
}
