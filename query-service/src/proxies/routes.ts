import { findLastUses } from '@token-vault/authentication';
import {
  EntitiesRead,
  NotFoundError,
  proxyStatement,
  type ApplicationKey,
  type Proxy,
} from '@token-vault/contracts';
import type { HandlersOf, RequestContext } from '@token-vault/operations';
import { isLive, presentKeys } from '../applications/keys.ts';
import { openConfiguration } from '../reactors/configuration.ts';
import { applicationOf, type ReactorDependencies } from '../reactors/routes.ts';
import { requireSigned, type SignedRow } from '../signed-rows.ts';
import { findProxy, listProxies, type ProxyRow } from './queries.ts';

type ProxyQueries = Pick<HandlersOf<'query'>, 'getProxy' | 'listProxies'>;

/** The signature covers every field that decides about access. */
const signed = (row: ProxyRow): SignedRow => ({
  statement: proxyStatement({
    ...row,
    requestCode: row.request_code,
    responseCode: row.response_code,
    requireAuth: row.require_auth,
    applicationId: row.application_id,
  }),
  signature: row.signature,
});

export function createProxyHandlers({ pool, reads, keyRing, audit }: ReactorDependencies): ProxyQueries {
  /** A configuration holds credentials of third parties, so it is recorded before it is shown, as token data is. */
  async function show(
    rows: readonly ProxyRow[],
    context: RequestContext,
    operation: 'read' | 'list',
  ): Promise<Proxy[]> {
    await requireSigned(keyRing, context.principal.tenant.id, rows.map(signed));
    const [shown] = await Promise.all([
      openAll({ pool, keyRing }, rows, context.now),
      audit.record(context, EntitiesRead, {
        entity_type: 'proxy',
        operation,
        entity_ids: rows.map(({ id }) => id),
      }),
    ]);
    return shown.filter((proxy) => proxy !== undefined);
  }

  return {
    async getProxy({ params }, context) {
      const row = await findProxy(pool, context.principal.tenant.id, params.id, context.now);
      if (!row) throw new NotFoundError('Proxy');
      const [shown] = await show([row], context, 'read');
      if (!shown) throw new NotFoundError('Proxy');
      return { body: shown };
    },

    async listProxies({ query }, context) {
      const { tenant } = context.principal;
      const { pagination, data } = await listProxies(
        reads.of(context),
        { tenantId: tenant.id, now: context.now },
        { ids: query.id, name: query.name },
        query,
      );
      return { body: { pagination, data: await show(data, context, 'list') } };
    },
  };
}

/** The proxies with their configuration; undefined for a proxy whose key is destroyed. */
async function openAll(
  { pool, keyRing }: Pick<ReactorDependencies, 'pool' | 'keyRing'>,
  rows: readonly ProxyRow[],
  now: Date,
): Promise<(Proxy | undefined)[]> {
  const live = rows.map(({ keys }) => keys.filter((key) => isLive(key, now)));
  const lastUses = await findLastUses(
    pool,
    live.flat().map(({ hash }) => hash),
  );
  return Promise.all(
    rows.map(async (row, index) => {
      const configuration = await openConfiguration(keyRing, 'proxy', row);
      return configuration && present(row, configuration.expose(), presentKeys(live[index] ?? [], lastUses));
    }),
  );
}

function present(
  row: ProxyRow,
  configuration: Record<string, string>,
  keys: readonly ApplicationKey[],
): Proxy {
  return {
    id: row.id,
    tenant_id: row.tenant_id,
    name: row.name,
    destination: row.destination,
    destinations: row.destinations.length === 0 ? undefined : [...row.destinations],
    application: applicationOf(row),
    request: row.request_code === null ? undefined : { code: row.request_code },
    response: row.response_code === null ? undefined : { code: row.response_code },
    require_auth: row.require_auth,
    configuration,
    keys: [...keys],
    created_by: row.created_by ?? undefined,
    created_at: row.created_at.toISOString(),
    modified_by: row.modified_by ?? undefined,
    modified_at: row.modified_at?.toISOString(),
  };
}
