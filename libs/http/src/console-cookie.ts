import {
  ForbiddenError,
  UnauthenticatedError,
  type Operation,
  type Permission,
} from '@token-vault/contracts';
import type { Authentication, Authenticator } from '@token-vault/authentication';
import { hashApiKey } from '@token-vault/crypto';
import type { Answer, NamedSession } from '@token-vault/operations';
import type { Request, Response } from 'express';

/** A browser stores this name only from https, for this host alone, and without a `Domain` (RFC 6265bis, 4.1.3.2). */
const securedName = '__Host-vault-console';
/** The name for plain http to this machine, where browsers do not store the other name. */
const localName = 'vault-console';

const loopback = /^(localhost|.+\.localhost|127(\.\d{1,3}){3}|\[::1\])$/i;

/** Undefined over plain http to another machine, because others in the network could read the cookie. */
function nameFor(request: Request): string | undefined {
  if (request.secure) return securedName;
  return loopback.test(request.hostname) ? localName : undefined;
}

/** `<session id>.<192 random bits>` */
const secretPattern = /^([\da-f-]{36})\.[\w-]{32}$/;

/**
 * The name `vault-console` can be on several cookies of a request: other servers of this machine and pages of `*.localhost` can set it for a
 * longer path or a domain, and browsers send these first (RFC 6265, 5.4). More are not looked up.
 */
const mostTried = 4;

/** The session that the page shows, by its id. All tabs of a browser have one cookie, and a sign-in in one of them changes it. */
function shownSessionOf({ headers }: Request): string | undefined {
  const { 'svc-console-session': id } = headers;
  return typeof id === 'string' && id !== '' ? id.toLowerCase() : undefined;
}

/**
 * The secrets in the request's cookies of the console. Usually there is one at most.
 * @throws UnauthenticatedError when all are of other sessions than the page shows
 */
function consoleSecretsOf(request: Request): readonly string[] {
  const { cookie } = request.headers;
  if (cookie === undefined) return [];
  const name = nameFor(request);
  if (name === undefined) return [];
  const secrets = cookie
    .split(';')
    .map((each) => each.trim())
    .filter((each) => each.startsWith(`${name}=`))
    .map((each) => each.slice(name.length + 1))
    .filter((secret) => secretPattern.test(secret));
  const shown = shownSessionOf(request);
  const usable = shown === undefined ? secrets : secrets.filter((secret) => secret.startsWith(`${shown}.`));
  if (usable.length === 0 && secrets.length > 0)
    throw new UnauthenticatedError(
      'The cookie of the console is of another session than the page that sent the request.',
    );
  return [...new Set(usable)].slice(0, mostTried);
}

type ConsoleAuthenticator = Pick<Authenticator, 'authenticateConsole'>;

interface Tried {
  readonly secret: string;
  readonly found: Authentication;
}

/**
 * The first secret that authenticates, or else the first that was valid earlier. So the cookie of another server, which authenticates nothing, does
 * not end the session of a person.
 */
async function firstGood(
  secrets: readonly string[],
  authenticator: ConsoleAuthenticator,
  permission: Permission | null,
): Promise<Tried | undefined> {
  const tried: Tried[] = [];
  for (const secret of secrets) {
    const found = await authenticator.authenticateConsole(secret, permission);
    if (found.kind === 'authenticated') return { secret, found };
    tried.push({ secret, found });
  }
  return tried.find(({ found }) => found.kind === 'retired') ?? tried[0];
}

/** The session that the cookie names, whether it has ended or not. */
export async function namedSessionOf(
  request: Request,
  authenticator: ConsoleAuthenticator,
): Promise<NamedSession | undefined> {
  const named = await firstGood(consoleSecretsOf(request), authenticator, null);
  const id = secretPattern.exec(named?.secret ?? '')?.[1];
  if (named === undefined || id === undefined) return undefined;
  return { id, secretHash: hashApiKey(named.secret), tenantId: tenantOf(named.found) };
}

function tenantOf(found: Authentication): string | undefined {
  if (found.kind === 'authenticated') return found.principal.tenant.id;
  return found.kind === 'retired' ? found.key.tenantId : undefined;
}

const safeMethods: ReadonlySet<string> = new Set(['GET', 'HEAD']);

/**
 * A browser adds the cookie to the requests of any page, so the page must be the vault's own: an unsafe request must name its origin, and
 * `Sec-Fetch-Site` must not name another site. `SameSite=Strict` alone would allow pages of a neighbouring subdomain.
 * @throws ForbiddenError
 */
function requireOwnPage(request: Request, isByCookie: boolean): void {
  const { origin, 'sec-fetch-site': site } = request.headers;
  const isSafe = safeMethods.has(request.method);
  const own = `${request.protocol}://${request.host}`;
  const isOwnOrigin =
    origin === undefined ? isSafe || !isByCookie : origin.toLowerCase() === own.toLowerCase();
  const isOwnSite = site === undefined || site === 'same-origin' || (isSafe && site === 'none');
  if (!isOwnOrigin || !isOwnSite)
    throw new ForbiddenError(
      'A request with the cookie of the console must come from a page of this address.',
    );
}

/** Code and styles that a page loads. The policy of the console allows those of its own address, where proxies answer too. */
const codeOfPages: ReadonlySet<string> = new Set([
  'script',
  'style',
  'worker',
  'sharedworker',
  'serviceworker',
  'audioworklet',
  'paintworklet',
  'xslt',
]);

/** Refuses to load the answer of another server as code into a page of the vault. @throws ForbiddenError */
function refuseCodeOfPages(request: Request): void {
  const destination = request.headers['sec-fetch-dest'];
  if (typeof destination === 'string' && codeOfPages.has(destination.toLowerCase()))
    throw new ForbiddenError('A page cannot load code through a proxy.');
}

/** A cookie that authenticates a request, and the function that finds its owner. */
interface ConsoleCredential {
  readonly key: string;
  readonly find: () => Promise<Authentication | undefined>;
}

/**
 * The cookie, when it authenticates the request. A key in the header takes precedence over the cookie. The cookie of a request
 * that goes on to another server belongs to that server.
 * @throws ForbiddenError, UnauthenticatedError
 */
export function consoleCredentialOf(
  request: Request,
  { isRaw, permission, consolePermission, tellsConsoleSession }: Operation,
  authenticator: ConsoleAuthenticator,
): ConsoleCredential | undefined {
  if (isRaw) refuseCodeOfPages(request);
  if (isRaw || request.headers['svc-api-key']) return undefined;
  const secrets = consoleSecretsOf(request);
  const [key] = secrets;
  if (key === undefined) return undefined;
  requireOwnPage(request, true);
  if (tellsConsoleSession !== true && shownSessionOf(request) === undefined)
    throw new ForbiddenError(
      'A request with the cookie of the console must name the session of its page in SVC-CONSOLE-SESSION. Load the page again.',
    );
  const needed = permission ?? consolePermission ?? null;
  return { key, find: async () => (await firstGood(secrets, authenticator, needed))?.found };
}

/** For a request that signs in. @throws ForbiddenError where its answer could not set the cookie */
export function requireCookiePlace(request: Request): void {
  requireOwnPage(request, false);
  if (nameFor(request) === undefined)
    throw new ForbiddenError(
      'Signing in needs https, or an address of this machine such as http://localhost. Behind a proxy that ends TLS, set VAULT_TRUST_PROXY.',
    );
}

/** Without a time of its own: the browser forgets the cookie when it is closed. The vault decides when the session ends. */
export function writeCookie(
  request: Request,
  response: Response,
  cookie: NonNullable<Answer['cookie']>,
): void {
  const name = nameFor(request);
  if (name === undefined) return;
  const value = cookie === 'cleared' ? '' : cookie.set;
  const attributes = ['Path=/', 'HttpOnly', 'SameSite=Strict'];
  if (cookie === 'cleared') attributes.push('Max-Age=0');
  if (name === securedName) attributes.push('Secure');
  response.append('Set-Cookie', [`${name}=${value}`, ...attributes].join('; '));
}
