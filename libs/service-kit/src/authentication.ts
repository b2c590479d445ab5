import type { Principal } from '@token-vault/access';
import type { AccessRule, ActorKind, ApplicationType, Permission, Plan } from '@token-vault/contracts';
import { equalHashes, hashApiKey } from '@token-vault/crypto';
import type { Clock, RetiredKey } from '@token-vault/operations';
import type pg from 'pg';

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
  authenticate(apiKey: string): Promise<Authentication>;
  /** Forgets what is cached: called when a key, a rule, a session or a tenant may have changed. */
  forget(): void;
}

interface PrincipalRow {
  kind: ActorKind;
  id: string;
  application_id: string;
  application_type: ApplicationType;
  key_hash: string;
  permissions: Permission[];
  rules: AccessRule[];
  expires_at: Date | null;
  tenant_id: string;
  plan: Plan;
  settings: Record<string, string>;
  /** Of a session. */
  authorizer_permissions: Permission[] | null;
  authorizer_rules: AccessRule[] | null;
}

const principalByKey = {
  name: 'principal-by-key',
  text: `
    select 'application' as kind, a.id, a.id as application_id, a.type as application_type, a.key_hash,
           a.permissions, a.rules, a.expires_at, t.id as tenant_id, t.plan, t.settings,
           null::jsonb as authorizer_permissions, null::jsonb as authorizer_rules
      from rm_applications.application a
      join rm_tenants.tenant t on t.id = a.tenant_id and not t.is_deleted
     where a.key_hash = $1
    union all
    select 'session', s.id, s.application_id, a.type, s.key_hash,
           s.permissions, s.rules, least(s.expires_at, a.expires_at, g.expires_at), t.id, t.plan, t.settings,
           g.permissions, g.rules
      from rm_applications.session s
      join rm_applications.application a on a.id = s.application_id
      join rm_applications.application g on g.id::text = s.authorized_by::text
      join rm_tenants.tenant t on t.id = s.tenant_id and not t.is_deleted
     where s.key_hash = $1 and s.is_authorized`,
};

const retiredByKey = {
  name: 'retired-by-key',
  text: 'select tenant_id, application_id, reason from rm_applications.retired_key where key_hash = $1',
};

interface Cached {
  readonly authentication: Authentication;
  readonly expiresAt: number;
  readonly loadedAt: number;
}

/** Revocation reaches every replica within this time even when a notification is lost (architecture.md). */
const cacheMs = 1000;
const cacheSize = 10_000;
const keyPattern = /^[\x21-\x7e]{8,200}$/;

function toPrincipal(row: PrincipalRow): Principal {
  return {
    tenant: { id: row.tenant_id, plan: row.plan, settings: row.settings },
    actor: { kind: row.kind, id: row.id },
    applicationId: row.application_id,
    applicationType: row.application_type,
    permissions: row.permissions,
    rules: byPriority(row.rules),
    ...(row.authorizer_permissions && row.authorizer_rules
      ? { authorizer: { permissions: row.authorizer_permissions, rules: byPriority(row.authorizer_rules) } }
      : {}),
  };
}

const byPriority = (rules: readonly AccessRule[]): AccessRule[] =>
  [...rules].sort((left, right) => left.priority - right.priority);

type Pool = Pick<pg.Pool, 'query'>;

interface Found {
  readonly authentication: Authentication;
  /** Of an authenticated caller. */
  readonly expiresAt: number;
}

async function findRetired(pool: Pool, hash: string): Promise<Authentication> {
  const { rows } = await pool.query<{ tenant_id: string; application_id: string; reason: string }>({
    ...retiredByKey,
    values: [hash],
  });
  const row = rows[0];
  if (!row) return { kind: 'unknown' };
  return {
    kind: 'retired',
    key: { tenantId: row.tenant_id, applicationId: row.application_id, reason: row.reason },
  };
}

async function find(pool: Pool, clock: Clock, hash: string): Promise<Found> {
  const { rows } = await pool.query<PrincipalRow>({ ...principalByKey, values: [hash] });
  const row = rows.find((candidate) => equalHashes(candidate.key_hash, hash));
  if (!row) return { authentication: await findRetired(pool, hash), expiresAt: 0 };
  const expiresAt = row.expires_at?.getTime() ?? Number.POSITIVE_INFINITY;
  if (clock.now().getTime() >= expiresAt) {
    const key = { tenantId: row.tenant_id, applicationId: row.application_id, reason: 'expired' };
    return { authentication: { kind: 'retired', key }, expiresAt };
  }
  const principal = toPrincipal(row);
  return { authentication: { kind: 'authenticated', principal, keyHash: hash }, expiresAt };
}

/**
 * Makes out the caller by the SHA-256 of its key. This is the one decision taken from a read model; expiry is judged by
 * the clock at every use, so it is exact.
 */
export function createAuthenticator(options: { readonly pool: Pool; readonly clock: Clock }): Authenticator {
  const { pool, clock } = options;
  const cache = new Map<string, Cached>();
  /** Callers with the same key share a look-up, unless something changed since it began. */
  let loading = new Map<string, Promise<Authentication>>();
  let generation = 0;

  const isFresh = ({ loadedAt, expiresAt }: Cached, now: number): boolean =>
    // `loadedAt <= now`: a clock that was set back must not lengthen the life of what is cached.
    loadedAt <= now && now < loadedAt + cacheMs && now < expiresAt;

  async function load(hash: string): Promise<Authentication> {
    const startedIn = generation;
    const loadedAt = clock.now().getTime();
    const { authentication, expiresAt } = await find(pool, clock, hash);
    // Not when something changed while the query ran: the row may be the old one.
    if (authentication.kind === 'authenticated' && startedIn === generation) {
      if (cache.size >= cacheSize) cache.clear();
      cache.set(hash, { authentication, expiresAt, loadedAt });
    }
    return authentication;
  }

  function loadOnce(hash: string): Promise<Authentication> {
    const shared = loading.get(hash);
    if (shared) return shared;
    const among = loading;
    const result = load(hash).finally(() => among.delete(hash));
    among.set(hash, result);
    return result;
  }

  return {
    async authenticate(apiKey) {
      if (!keyPattern.test(apiKey)) return { kind: 'unknown' };
      const hash = hashApiKey(apiKey);
      const cached = cache.get(hash);
      if (cached && isFresh(cached, clock.now().getTime())) return cached.authentication;
      return loadOnce(hash);
    },
    forget() {
      generation += 1;
      cache.clear();
      loading = new Map();
    },
  };
}
