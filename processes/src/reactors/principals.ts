import type { Principal, TenantContext } from '@token-vault/access';
import type { Actor, Plan } from '@token-vault/contracts';
import { findPrincipalByActor, toPrincipal, type Clock, type ReadModelWatch } from '@token-vault/service-kit';
import type { Pool } from 'pg';

interface TenantRow {
  tenant_id: string;
  plan: Plan;
  settings: Record<string, string>;
}

const tenantById = {
  name: 'tenant-by-id',
  text: 'select id as tenant_id, plan, settings from rm_tenants.tenant where id = $1 and not is_deleted',
};

/**
 * Whom reactors act as, and in whose name they run. Read at each use: a deleted or expired application stops at once.
 * @throws UnavailableError when the read models that callers are made of stand still
 */
export interface Principals {
  tenant(tenantId: string): Promise<TenantContext | undefined>;
  application(tenantId: string, applicationId: string): Promise<Principal | undefined>;
  /** An application or a session, with the rights of this moment; undefined when it is no more. */
  actor(tenantId: string, actor: Actor): Promise<Principal | undefined>;
}

export function createPrincipals({
  pool,
  clock,
  watch,
}: {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly watch: Pick<ReadModelWatch, 'current'>;
}): Principals {
  const find = (tenantId: string, actor: Actor) =>
    watch.current(async () => {
      const row = await findPrincipalByActor(pool, tenantId, actor);
      const isOver = !row || (row.expires_at !== null && row.expires_at <= clock.now());
      return isOver ? undefined : toPrincipal(row);
    });

  return {
    tenant: (tenantId) =>
      watch.current(async () => {
        const { rows } = await pool.query<TenantRow>({ ...tenantById, values: [tenantId] });
        const [row] = rows;
        return row && { id: row.tenant_id, plan: row.plan, settings: row.settings };
      }),
    application: (tenantId, id) => find(tenantId, { kind: 'application', id }),
    actor: find,
  };
}
