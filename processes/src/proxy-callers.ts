import type { Principal } from '@token-vault/access';
import type { Authentication, KeyUses } from '@token-vault/authentication';
import type { ProxyFinder } from '@token-vault/command-service';
import { aliased, isUuid, NotFoundError, streams } from '@token-vault/contracts';
import { equalHashes, hashApiKey } from '@token-vault/crypto';
import type { ProxyKeys } from '@token-vault/http';
import type { Clock } from '@token-vault/operations';
import type { ReadModelWatch } from '@token-vault/read-models';
import type pg from 'pg';
import type { Principals } from './reactors/principals.ts';

export interface ProxyCallerDependencies {
  readonly pool: Pick<pg.Pool, 'query'>;
  readonly findProxy: ProxyFinder;
  readonly findApplication: Principals['application'];
  readonly clock: Clock;
  readonly keyUses: Pick<KeyUses, 'note'>;
  readonly watch: Pick<ReadModelWatch, 'current'>;
}

const p = aliased('proxies', 'proxy', 'p');
const tenantOfProxy = {
  name: 'tenant-of-proxy',
  text: `select ${p.tenant_id} from ${p.source} where ${p.id} = $1`,
};
const unknown: Authentication = { kind: 'unknown' };

/**
 * The callers of requests with a key of a proxy, or without one where the proxy needs none: they have the rights of the proxy's application.
 * The row says only which tenant a proxy belongs to. Keys are those of the log at this moment, so a key that was deleted opens nothing
 * from then on, in any process (ADR 30).
 */
export function createProxyKeys(dependencies: ProxyCallerDependencies): ProxyKeys {
  const { pool, findProxy, findApplication, clock, keyUses, watch } = dependencies;

  async function find(proxyId: string) {
    if (!isUuid(proxyId)) return undefined;
    const { rows } = await pool.query<{ tenant_id: string }>({ ...tenantOfProxy, values: [proxyId] });
    const tenantId = rows[0]?.tenant_id;
    if (tenantId === undefined) return undefined;
    try {
      return { tenantId, details: (await findProxy(tenantId, proxyId)).details };
    } catch (error) {
      if (error instanceof NotFoundError) return undefined;
      throw error;
    }
  }

  async function admit(
    found: NonNullable<Awaited<ReturnType<typeof find>>>,
    applicationId: string,
    key: string | undefined,
  ): Promise<Authentication> {
    const { tenantId, details } = found;
    const hash = key === undefined ? undefined : hashApiKey(key);
    const { keyId, reason } = admissionOf(details, hash, clock.now());
    const retired = (why: string): Authentication => ({
      kind: 'retired',
      key: { tenantId, applicationId, reason: why },
    });
    if (reason !== undefined) return reason === 'unknown' ? unknown : retired(reason);
    const principal = await findApplication(tenantId, applicationId);
    if (!principal) return retired('ended');
    if (hash !== undefined) keyUses.note(tenantId, hash, clock.now());
    const byKey = keyId === undefined ? {} : { proxyKeyId: keyId };
    const client: Principal = { ...principal, ...byKey, isProxyClient: true };
    return { kind: 'authenticated', principal: client, keyHash: hash ?? '' };
  }

  return {
    authenticate: (proxyId, key) =>
      watch.current(async ({ generation }) => {
        const proxy = await find(proxyId);
        const applicationId = proxy?.details.applicationId;
        if (!proxy || applicationId === undefined) return { found: unknown, generation, streams: [] };
        const { tenantId } = proxy;
        const restsOn = [
          streams.tenant(tenantId),
          streams.application(tenantId, applicationId),
          streams.proxy(tenantId, proxyId),
        ];
        return { found: await admit(proxy, applicationId, key), generation, streams: restsOn };
      }),
  };
}

type Details = Awaited<ReturnType<ProxyFinder>>['details'];

/** For the key with this hash, or for a request without a key: the id of the key, or the reason of the refusal. */
function admissionOf(
  { keys, retiredHashes, requireAuth }: Details,
  hash: string | undefined,
  now: Date,
): { readonly keyId?: string; readonly reason?: string } {
  if (hash === undefined) return requireAuth ? { reason: 'unknown' } : {};
  const key = keys.find((each) => equalHashes(each.hash, hash));
  if (!key) {
    const wasKey = retiredHashes.some((each) => equalHashes(each, hash));
    return { reason: wasKey ? 'deleted' : 'unknown' };
  }
  const isOver = key.expires_at !== undefined && Date.parse(key.expires_at) <= now.getTime();
  return isOver ? { reason: 'expired' } : { keyId: key.id };
}
