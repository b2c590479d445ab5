import { z } from 'zod';
import { parseDestinations } from '../destinations.ts';
import { applicationTypes } from '../permissions.ts';
import { optional, secretOf, text } from '../text.ts';
import { applicationKey, entityName, uuidParams } from './applications.ts';
import { page } from './paging.ts';
import { applicationReference, code, configuration, configurationPatch } from './reactors.ts';

/** Visible ASCII without a backslash: another text could be read differently by different parsers. */
const urlCharacters = /^https?:\/\/[\x21-\x5b\x5d-\x7e]+$/i;
/** A step out of the base path, an expression, or a separator that the path does not show. */
const ambiguousPath = /(^|\/)(\.|%2e){1,2}(\/|$)|\{|\}|%7b|%7d|%2f|%5c/i;

/**
 * The scheme, host, port and base path of a proxy, without a slash at its end: `https://api.example.com/v1`. Undefined for a text that is
 * not such a URL.
 */
export function parseProxyDestination(given: string): string | undefined {
  const url = urlCharacters.test(given) ? URL.parse(given) : null;
  if (url === null || url.username !== '' || url.password !== '' || /[?#]/.test(given)) return undefined;
  const [, path = ''] = /^https?:\/\/[^/]*(.*)$/i.exec(given) ?? [];
  return ambiguousPath.test(path) ? undefined : url.origin + url.pathname.replace(/\/+$/, '');
}

const destination = text(1, 2_000).refine(
  (given) => parseProxyDestination(given) !== undefined,
  'must be an https URL with a host and a base path, without user, query, fragment, expression or dot segments',
);

/** Destinations to which the code of the transforms may send requests, besides the destination of the proxy. */
const destinations = z
  .array(
    text(1, 300).refine(
      (given) => parseDestinations(given)?.length === 1,
      'must be a destination such as https://api.example.com or https://*.example.com',
    ),
  )
  .max(50);

const transform = z.object({ code });

export const proxyBody = z.object({
  name: entityName,
  destination,
  destinations: optional(destinations),
  application: optional(applicationReference),
  request: optional(transform),
  response: optional(transform),
  require_auth: optional(z.boolean()),
  configuration: secretOf(optional(configuration)),
});
export type ProxyBody = z.infer<typeof proxyBody>;

export const patchProxyBody = z.object({
  name: entityName.optional(),
  destination: destination.optional(),
  destinations: destinations.nullish(),
  application: applicationReference.nullish(),
  request: z.object({ code: code.optional() }).nullish(),
  response: z.object({ code: code.optional() }).nullish(),
  require_auth: z.boolean().nullish(),
  configuration: secretOf(configurationPatch.nullish()),
});
export type PatchProxyBody = z.infer<typeof patchProxyBody>;

const shownTransform = z.object({ code: z.string() }).optional();
export const proxy = z.object({
  id: z.uuid(),
  tenant_id: z.uuid(),
  name: z.string(),
  destination: z.string(),
  destinations: z.array(z.string()).optional(),
  application: z
    .object({ id: z.uuid(), name: z.string().optional(), type: z.enum(applicationTypes).optional() })
    .optional(),
  request: shownTransform,
  response: shownTransform,
  require_auth: z.boolean(),
  configuration: z.record(z.string(), z.string()),
  /** The keys of the proxy, without their texts. */
  keys: z.array(applicationKey),
  created_by: z.string().optional(),
  created_at: z.string().optional(),
  modified_by: z.string().optional(),
  modified_at: z.string().optional(),
});
export type Proxy = z.infer<typeof proxy>;
export const proxyPage = page(proxy);

/** `path`: below the base path of the destination. */
export const invokeProxyParams = uuidParams.extend({ path: z.string().optional() });

const proxyKeyParameter = 'svc-proxy-key';

/** Whether a pair of a query holds a key of a proxy, however its name is written. */
function holdsProxyKey(pair: string): boolean {
  const name = pair.split('=', 1)[0] ?? '';
  return [...new URLSearchParams(name).keys()].some((each) => each.toLowerCase() === proxyKeyParameter);
}

/**
 * The key of a proxy in a query; undefined when there is none. When there are several, none of them is valid: the result is the empty text.
 */
export function proxyKeyOf(query: string): string | undefined {
  const pairs = query.split('&').filter(holdsProxyKey);
  if (pairs.length === 0) return undefined;
  return pairs.length === 1 ? ([...new URLSearchParams(pairs[0]).values()][0] ?? '') : '';
}

/** The query without keys of a proxy, the rest as it was written. */
export const withoutProxyKeys = (query: string): string =>
  query
    .split('&')
    .filter((pair) => !holdsProxyKey(pair))
    .join('&');

/** The maximum number of valid keys of one proxy. */
export const maxProxyKeys = 10;
