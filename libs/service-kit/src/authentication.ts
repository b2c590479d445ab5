import type { Principal } from '@token-vault/access';
import { hashApiKey } from '@token-vault/crypto';
import type { Clock, RetiredKey } from '@token-vault/operations';
import { createCallers, type CallerDependencies, type Callers } from './callers/callers.ts';
import type { Pool } from './callers/rows.ts';
import type { ReadModelWatch } from './read-model-watch.ts';
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
  /** @throws UnavailableError when the read models that callers are made of stand still */
  authenticate(apiKey: string): Promise<Authentication>;
  /** Forgets what is cached: called when a key, a rule, a session or a tenant may have changed. */
  forget(): void;
}

interface Cached {
  readonly authentication: Authentication;
  readonly expiresAt: number;
  readonly loadedAt: number;
  readonly accessGeneration: string;
}

/** What changes without being confirmed (a new plan, say) reaches every replica within this time, also when a notification is lost. */
const cacheMs = 1000;
const cacheSize = 10_000;
const keyPattern = /^[\x21-\x7e]{8,200}$/;

interface Found {
  readonly authentication: Authentication;
  /** Of an authenticated caller. */
  readonly expiresAt: number;
}

async function find(callers: Callers, pool: Pool, clock: Clock, hash: string): Promise<Found> {
  const caller = await callers.byKeyHash(hash);
  if (!caller) {
    const key = await findRetiredKey(pool, hash);
    return { authentication: key ? { kind: 'retired', key } : { kind: 'unknown' }, expiresAt: 0 };
  }
  const { principal, expiresAt } = caller;
  if (clock.now().getTime() >= expiresAt)
    return { authentication: { kind: 'retired', key: expiredKeyOf(principal) }, expiresAt };
  return { authentication: { kind: 'authenticated', principal, keyHash: hash }, expiresAt };
}

/**
 * Makes out the caller by the SHA-256 of its key. This is the one decision taken from a read model, by rows that are
 * signed and that the log has nothing newer than (ADR 20); expiry is judged by the clock at every use, so it is exact.
 */
export function createAuthenticator(
  options: CallerDependencies & {
    readonly clock: Clock;
    readonly watch: Pick<ReadModelWatch, 'current'>;
  },
): Authenticator {
  const { pool, clock, watch } = options;
  const callers = createCallers(options);
  const cache = new Map<string, Cached>();
  /** Callers with the same key share a look-up, unless something changed since it began. */
  let loading = new Map<string, Promise<Authentication>>();
  let generation = 0;

  const isFresh = ({ loadedAt, expiresAt }: Cached, now: number): boolean =>
    // `loadedAt <= now`: a clock that was set back must not lengthen the life of what is cached.
    loadedAt <= now && now < loadedAt + cacheMs && now < expiresAt;

  async function load(hash: string, accessGeneration: string): Promise<Authentication> {
    const startedIn = generation;
    const loadedAt = clock.now().getTime();
    const { authentication, expiresAt } = await find(callers, pool, clock, hash);
    // Not when something changed while the query ran: the row may be the old one.
    if (authentication.kind === 'authenticated' && startedIn === generation) {
      if (cache.size >= cacheSize) cache.clear();
      cache.set(hash, { authentication, expiresAt, loadedAt, accessGeneration });
    }
    return authentication;
  }

  function loadOnce(hash: string, accessGeneration: string): Promise<Authentication> {
    const call = `${hash} ${accessGeneration}`;
    const shared = loading.get(call);
    if (shared) return shared;
    const among = loading;
    const result = load(hash, accessGeneration).finally(() => among.delete(call));
    among.set(call, result);
    return result;
  }

  return {
    async authenticate(apiKey) {
      if (!keyPattern.test(apiKey)) return { kind: 'unknown' };
      const hash = hashApiKey(apiKey);
      return watch.current((accessGeneration) => {
        const cached = cache.get(hash);
        const isCurrent = cached?.accessGeneration === accessGeneration;
        if (cached && isCurrent && isFresh(cached, clock.now().getTime())) return cached.authentication;
        return loadOnce(hash, accessGeneration);
      });
    },
    forget() {
      generation += 1;
      cache.clear();
      loading = new Map();
    },
  };
}
