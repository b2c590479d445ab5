import {
  ForbiddenError,
  UnauthenticatedError,
  type Operation,
  type Permission,
} from '@token-vault/contracts';
import type { Authentication, Authenticator } from '@token-vault/authentication';
import { hashApiKey } from '@token-vault/crypto';
import type { Answer, Identity, NamedSession } from '@token-vault/operations';
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

const ofOtherSession = 'The cookie of the console is of another session than the page that sent the request.';

interface ConsoleSecrets {
  readonly secrets: readonly string[];
  /** All are of other sessions than the page shows, so none may authenticate. */
  readonly areOfOthers: boolean;
}

/** The secrets in the request's cookies of the console. Usually there is one at most. */
function consoleSecretsOf(request: Request): ConsoleSecrets {
  const { cookie } = request.headers;
  const name = nameFor(request);
  if (cookie === undefined || name === undefined) return { secrets: [], areOfOthers: false };
  const secrets = cookie
    .split(';')
    .map((each) => each.trim())
    .filter((each) => each.startsWith(`${name}=`))
    .map((each) => each.slice(name.length + 1))
    .filter((secret) => secretPattern.test(secret));
  const shown = shownSessionOf(request);
  const usable = shown === undefined ? secrets : secrets.filter((secret) => secret.startsWith(`${shown}.`));
  const areOfOthers = usable.length === 0 && secrets.length > 0;
  return { secrets: [...new Set(areOfOthers ? secrets : usable)].slice(0, mostTried), areOfOthers };
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
  isUse = true,
): Promise<Tried | undefined> {
  const tried: Tried[] = [];
  for (const secret of secrets) {
    const found = await authenticator.authenticateConsole(secret, permission, isUse);
    if (found.kind === 'authenticated') return { secret, found };
    tried.push({ secret, found });
  }
  return tried.find(({ found }) => found.kind === 'retired') ?? tried[0];
}

/** The session that the cookie names, whether it has ended or not. @throws UnauthenticatedError when the page shows another */
export async function namedSessionOf(
  request: Request,
  authenticator: ConsoleAuthenticator,
): Promise<NamedSession | undefined> {
  const { secrets, areOfOthers } = consoleSecretsOf(request);
  if (areOfOthers) throw new UnauthenticatedError(ofOtherSession);
  const named = await firstGood(secrets, authenticator, null);
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
 */
function isOfOwnPage(request: Request, isByCookie: boolean): boolean {
  const { origin, 'sec-fetch-site': site } = request.headers;
  const isSafe = safeMethods.has(request.method);
  const own = `${request.protocol}://${request.host}`;
  const isOwnOrigin =
    origin === undefined ? isSafe || !isByCookie : origin.toLowerCase() === own.toLowerCase();
  const isOwnSite = site === undefined || site === 'same-origin' || (isSafe && site === 'none');
  return isOwnOrigin && isOwnSite;
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
  readonly find: () => Promise<Identity | undefined>;
}

/** A cookie of another session than the page shows authenticates nothing. Its session is known, so the log tells of the refusal. */
function asRefused(identity: Authentication | undefined): Identity | undefined {
  if (identity?.kind === 'unknown' || identity === undefined) return identity;
  if (identity.kind === 'retired') return { ...identity, detail: ofOtherSession };
  const { tenant, applicationId, actor } = identity.principal;
  const key = { tenantId: tenant.id, applicationId, sessionId: actor.id, reason: 'other session shown' };
  return { kind: 'retired', key, detail: ofOtherSession };
}

/** A key in the header takes precedence over the cookie. The cookie of a request that goes on to another server belongs to that server. */
const mayHaveCookie = (request: Request, { isRaw }: Operation): boolean =>
  !isRaw && !request.headers['svc-api-key'];

/**
 * The cookie, when it authenticates the request. Whether the request may come from its page is asked of `requireConsolePage`.
 * @throws ForbiddenError
 */
export function consoleCredentialOf(
  request: Request,
  operation: Operation,
  authenticator: ConsoleAuthenticator,
): ConsoleCredential | undefined {
  if (operation.isRaw) refuseCodeOfPages(request);
  if (!mayHaveCookie(request, operation)) return undefined;
  const { secrets, areOfOthers } = consoleSecretsOf(request);
  const [key] = secrets;
  if (key === undefined) return undefined;
  const needed = operation.permission ?? operation.consolePermission ?? null;
  const isUse = !areOfOthers && pageRefusal(request, operation) === undefined;
  const find = async () => (await firstGood(secrets, authenticator, needed, isUse))?.found;
  return { key, find: areOfOthers ? async () => asRefused(await find()) : find };
}

/** The refusal of a request whose page is not of the vault, shows no session, or has no place for the cookie of its answer. */
function pageRefusal(request: Request, operation: Operation): ForbiddenError | undefined {
  const { setsCookie, tellsConsoleSession } = operation;
  const isByCookie = mayHaveCookie(request, operation) && consoleSecretsOf(request).secrets.length > 0;
  if (!isByCookie && setsCookie !== true) return undefined;
  if (!isOfOwnPage(request, isByCookie))
    return new ForbiddenError(
      'A request with the cookie of the console must come from a page of this address.',
    );
  if (setsCookie === true && nameFor(request) === undefined)
    return new ForbiddenError(
      'Signing in needs https, or an address of this machine such as http://localhost. Behind a proxy that ends TLS, set VAULT_TRUST_PROXY.',
    );
  if (isByCookie && tellsConsoleSession !== true && shownSessionOf(request) === undefined)
    return new ForbiddenError(
      'A request with the cookie of the console must name the session of its page in SVC-CONSOLE-SESSION. Load the page again.',
    );
  return undefined;
}

/** Called when the caller is known, so that its log has the refusal. @throws ForbiddenError */
export function requireConsolePage(request: Request, operation: Operation): void {
  const refusal = pageRefusal(request, operation);
  if (refusal) throw refusal;
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
