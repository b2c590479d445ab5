import type { Principal } from '@token-vault/access';
import { isTokenPermission, type Permission } from '@token-vault/contracts';
import { hashApiKey } from '@token-vault/crypto';
import type { Clock, RetiredKey } from '@token-vault/operations';
import type { Caller, SignedIn } from './caller.ts';
import type { KeyUses } from './key-uses.ts';
import { createCallers, type CallerDependencies, type Callers } from './callers.ts';
import type { Pool } from './rows.ts';
import type { FoundRights, ReadModelWatch } from '@token-vault/read-models';
import { expiredKeyOf, findRetiredKey } from './retired-keys.ts';

export type Authentication =
  | {
      readonly kind: 'authenticated';
      readonly principal: Principal;
      /** SHA-256 of the key, hex. */
      readonly keyHash: string;
    }
  | { readonly kind: 'retired'; readonly key: RetiredKey }
  | { readonly kind: 'unknown' };

export interface Authenticator {
  /** @throws UnavailableError when the read models of authentication have stopped */
  authenticate(apiKey: string): Promise<Authentication>;
  /**
   * The caller of a request that needs this permission, by the secret in the cookie of the console. Also notes that the session is used, unless
   * `isUse` is false: the page of a stranger must not prolong it.
   * @throws as `authenticate`
   */
  authenticateConsole(
    secret: string,
    permission: Permission | null,
    isUse?: boolean,
  ): Promise<Authentication>;
  /** Clears the cache: called when a key, a rule, a session or a tenant may have changed. */
  forget(): void;
}

/** The credential of a request. A session of the console has an application for each kind of permission. */
interface Credential {
  /** SHA-256, hex. */
  readonly hash: string;
  /** Set for the secret in the cookie of the console. */
  readonly console?: { readonly permission: Permission | null };
}

const cacheKeyOf = ({ hash, console: signedIn }: Credential): string => {
  if (!signedIn) return hash;
  const isForTokens = signedIn.permission !== null && isTokenPermission(signedIn.permission);
  return `${hash} ${isForTokens ? 'tokens' : 'other'}`;
};

/** The caller of a credential, or why it is none. */
interface Current {
  readonly authentication: Authentication;
  readonly consoleSession: SignedIn | undefined;
}

interface Cached extends FoundRights<Current> {
  readonly expiresAt: number;
  readonly loadedAt: number;
}

/** Changes that are not confirmed (e.g. a new plan) reach every replica within this time, also when a notification is lost. */
const cacheMs = 1000;
const cacheSize = 10_000;
const keyPattern = /^[\x21-\x7e]{8,200}$/;

interface Found {
  readonly authentication: Authentication;
  /** Undefined for a key that names no caller. */
  readonly caller?: Caller;
}

async function find(
  { callers, pool, clock }: { readonly callers: Callers; readonly pool: Pool; readonly clock: Clock },
  { hash, console: signedIn }: Credential,
): Promise<Found> {
  const caller = await (signedIn
    ? callers.byConsoleSecret(hash, signedIn.permission)
    : callers.byKeyHash(hash));
  if (!caller) {
    const key = await findRetiredKey(pool, hash);
    return { authentication: key ? { kind: 'retired', key } : { kind: 'unknown' } };
  }
  const { principal, expiresAt } = caller;
  if (clock.now().getTime() >= expiresAt)
    return { authentication: { kind: 'retired', key: expiredKeyOf(principal) }, caller };
  return { authentication: { kind: 'authenticated', principal, keyHash: hash }, caller };
}

interface AuthenticatorOptions extends CallerDependencies {
  readonly clock: Clock;
  readonly watch: Pick<ReadModelWatch, 'current'>;
  /** Called at each request of the console. It handles its own errors, because an error would fail the request. */
  readonly onConsoleUse?: (session: SignedIn) => Promise<void>;
  /** Notified of each key of an application that is in use, at least once a second. */
  readonly keyUses?: Pick<KeyUses, 'note'>;
}

/** `loadedAt <= now`: a clock that was set back must not lengthen the lifetime of a cache entry. */
const isFresh = ({ loadedAt, expiresAt }: Cached, now: number): boolean =>
  loadedAt <= now && now < loadedAt + cacheMs && now < expiresAt;

/** Callers by their credentials, cached for a moment. */
function createLookUps(options: AuthenticatorOptions) {
  const { pool, clock, watch, keyUses } = options;
  const callers = createCallers(options);
  const cache = new Map<string, Cached>();
  /** Requests with the same key share a look-up, unless a record changed since it began. */
  let loading = new Map<string, Promise<Found>>();
  let changes = 0;

  async function load(credential: Credential, generation: number): Promise<Found> {
    const startedAfter = changes;
    const loadedAt = clock.now().getTime();
    const found = await find({ callers, pool, clock }, credential);
    const { authentication, caller } = found;
    if (authentication.kind === 'authenticated' && authentication.principal.actor.kind === 'application')
      keyUses?.note(authentication.principal.tenant.id, credential.hash, clock.now());
    // Not cached when a record changed while the query ran: the row may be the old one.
    if (caller && authentication.kind === 'authenticated' && startedAfter === changes) {
      if (cache.size >= cacheSize) cache.clear();
      const { expiresAt, consoleSession, streams } = caller;
      const current = { authentication, consoleSession };
      cache.set(cacheKeyOf(credential), { found: current, generation, streams, expiresAt, loadedAt });
    }
    return found;
  }

  function loadOnce(credential: Credential, generation: number): Promise<Found> {
    const call = `${cacheKeyOf(credential)} ${generation}`;
    const shared = loading.get(call);
    if (shared) return shared;
    const among = loading;
    const result = load(credential, generation).finally(() => among.delete(call));
    among.set(call, result);
    return result;
  }

  function current(credential: Credential): Promise<Current> {
    return watch.current(async (revocations): Promise<FoundRights<Current>> => {
      const cached = cache.get(cacheKeyOf(credential));
      if (cached && revocations.leave(cached) && isFresh(cached, clock.now().getTime())) return cached;
      const { generation } = revocations;
      const { authentication, caller } = await loadOnce(credential, generation);
      const found = { authentication, consoleSession: caller?.consoleSession };
      return { found, generation, streams: caller?.streams ?? [] };
    });
  }

  return {
    current,
    forget: (): void => {
      changes += 1;
      cache.clear();
      loading = new Map();
    },
  };
}

/**
 * Authenticates the caller by the SHA-256 of its key. This is the only decision that is made from a read model: its rows are signed, and
 * the log has no newer events for them (ADR 20). The expiry is checked against the clock at every use, so it is exact.
 */
export function createAuthenticator(options: AuthenticatorOptions): Authenticator {
  const { current, forget } = createLookUps(options);
  return {
    async authenticate(apiKey) {
      if (!keyPattern.test(apiKey)) return { kind: 'unknown' };
      return (await current({ hash: hashApiKey(apiKey) })).authentication;
    },
    async authenticateConsole(secret, permission, isUse = true) {
      if (!keyPattern.test(secret)) return { kind: 'unknown' };
      const { authentication, consoleSession } = await current({
        hash: hashApiKey(secret),
        console: { permission },
      });
      if (isUse && consoleSession && authentication.kind === 'authenticated')
        await options.onConsoleUse?.(consoleSession);
      return authentication;
    },
    forget,
  };
}
