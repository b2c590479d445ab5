import type { Principal } from '@token-vault/access';
import { isIP } from 'node:net';
import {
  applicationDestinationsSetting,
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

/** A caller whose request goes to another server. */
export type Sender = Pick<Principal, 'tenant' | 'applicationId' | 'authorizedBy'>;

/** Code of a proxy acts by the rights of the proxy's application, so its list counts too. */
interface Through {
  readonly applicationId: string | undefined;
}

/** The setting that does not allow the URL. On an enterprise plan an empty list of the tenant allows nothing. */
function refusingSetting(url: URL, sender: Sender, proxy?: Through): string | undefined {
  const { plan, settings } = sender.tenant;
  const patternsOf = (list: string) => parseDestinations(list) ?? [];
  const ofTenant = patternsOf(settings[proxyDestinationsSetting] ?? '');
  const isOpen = ofTenant.length === 0 && plan !== 'enterprise';
  if (!isOpen && !coversDestination(ofTenant, url)) return proxyDestinationsSetting;
  const applications = [sender.applicationId, sender.authorizedBy, proxy?.applicationId];
  const isRefused = applications.some((id) => {
    const own = id === undefined ? undefined : settings[applicationDestinationsSetting(id)];
    return own !== undefined && !coversDestination(patternsOf(own), url);
  });
  return isRefused ? applicationDestinationsSetting('<application id>') : undefined;
}

/** Whether the tenant allows the URL to the applications of a request: that of its caller, and that of the proxy. */
export const isAllowed = (url: URL, sender: Sender, proxy: Through): boolean =>
  refusingSetting(url, sender, proxy) === undefined;

/** @throws FieldForbiddenError naming the field that gave the URL */
export function requireAllowed(url: URL, sender: Sender, field: string, proxy?: Through): void {
  const setting = refusingSetting(url, sender, proxy);
  if (setting !== undefined)
    throw new FieldForbiddenError(
      [field],
      `is not among the destinations that the tenant allows (setting ${setting})`,
    );
}

/**
 * The URL of the request, if the tenant allows it. The egress broker checks the address when it connects.
 * @throws ValidationError, FieldForbiddenError
 */
export function destinationOf({ headers }: RawRequest, sender: Sender): URL {
  const url = requestedUrl(headers);
  requireAllowed(url, sender, header);
  return url;
}
