import type { TenantContext } from '@token-vault/access';
import { isIP } from 'node:net';
import {
  coversDestination,
  FieldForbiddenError,
  holdsCardNumber,
  parseDestinations,
  proxyDestinationsSetting,
  ValidationError,
  type RawRequest,
} from '@token-vault/contracts';

const header = 'SVC-PROXY-URL';
const maxLength = 2_000;
/** Visible ASCII: servers could interpret other characters of a URL differently. */
const written = /^https?:\/\/[\x21-\x5b\x5d-\x7e]+$/i;
const expression = /(\{|%7b){2}/i;

/** The URL that the request names as its destination. @throws ValidationError */
function requestedUrl(headers: RawRequest['headers']): URL {
  const given = headers.filter(([name]) => name.toLowerCase() === header.toLowerCase());
  const [text] = given.map(([, value]) => value);
  if (text === undefined || text === '') throw ValidationError.of(header, 'is required');
  if (given.length > 1) throw ValidationError.of(header, 'must be given once');
  if (text.length > maxLength) throw ValidationError.of(header, `must have at most ${maxLength} characters`);
  if (expression.test(text))
    throw ValidationError.of(header, 'must not hold an expression; the query of the request may');
  const url = written.test(text) ? URL.parse(text) : null;
  if (url === null)
    throw ValidationError.of(header, 'must be an https URL of visible ASCII characters, without a backslash');
  if (url.username !== '' || url.password !== '')
    throw ValidationError.of(header, 'must not hold a user name or password');
  // The log names the destination.
  if (isIP(url.hostname) === 0 && holdsCardNumber(url.hostname))
    throw ValidationError.of(header, 'must not have a host name that could be a card number');
  url.hash = '';
  return url;
}

/** Whether the tenant allows the URL (its setting `proxy_destinations`). On an enterprise plan an empty list allows nothing. */
export function isAllowed(url: URL, { plan, settings }: TenantContext): boolean {
  const patterns = parseDestinations(settings[proxyDestinationsSetting] ?? '') ?? [];
  const isOpen = patterns.length === 0 && plan !== 'enterprise';
  return isOpen || coversDestination(patterns, url);
}

/** @throws FieldForbiddenError naming the field that gave the URL */
export function requireAllowed(url: URL, tenant: TenantContext, field: string): void {
  if (!isAllowed(url, tenant))
    throw new FieldForbiddenError(
      [field],
      `is not among the destinations of the tenant (setting ${proxyDestinationsSetting})`,
    );
}

/**
 * The URL of the request, if the tenant allows it. The egress broker checks the address when it connects.
 * @throws ValidationError, FieldForbiddenError
 */
export function destinationOf({ headers }: RawRequest, tenant: TenantContext): URL {
  const url = requestedUrl(headers);
  requireAllowed(url, tenant, header);
  return url;
}
