import type { Principal, TenantContext } from '@token-vault/access';
import type { AccessRule, ApplicationType, Permission, Plan } from '@token-vault/contracts';
import type { Clock } from '@token-vault/service-kit';
import type { Pool } from 'pg';

interface TenantRow {
  tenant_id: string;
  plan: Plan;
  settings: Record<string, string>;
}

interface ApplicationRow extends TenantRow {
  id: string;
  type: ApplicationType;
  permissions: Permission[];
  rules: AccessRule[];
  expires_at: Date | null;
}

const tenantById = {
  name: 'tenant-by-id',
  text: 'select id as tenant_id, plan, settings from rm_tenants.tenant where id = $1 and not is_deleted',
};

const applicationById = {
  name: 'application-by-id',
  text: `
    select a.id, a.type, a.permissions, a.rules, a.expires_at, t.id as tenant_id, t.plan, t.settings
      from rm_applications.application a
      join rm_tenants.tenant t on t.id = a.tenant_id and not t.is_deleted
     where a.tenant_id = $1 and a.id = $2`,
};

/** Whom reactors act as. Read at each use: a deleted or expired application stops at once. */
export interface Principals {
  tenant(tenantId: string): Promise<TenantContext | undefined>;
  application(tenantId: string, applicationId: string): Promise<Principal | undefined>;
}

export function createPrincipals(pool: Pool, clock: Clock): Principals {
  return {
    async tenant(tenantId) {
      const { rows } = await pool.query<TenantRow>({ ...tenantById, values: [tenantId] });
      const [row] = rows;
      return row && { id: row.tenant_id, plan: row.plan, settings: row.settings };
    },
    async application(tenantId, applicationId) {
      const { rows } = await pool.query<ApplicationRow>({
        ...applicationById,
        values: [tenantId, applicationId],
      });
      const [row] = rows;
      if (!row || (row.expires_at !== null && row.expires_at <= clock.now())) return undefined;
      return {
        tenant: { id: row.tenant_id, plan: row.plan, settings: row.settings },
        actor: { kind: 'application', id: row.id },
        applicationId: row.id,
        applicationType: row.type,
        permissions: row.permissions,
        rules: [...row.rules].sort((left, right) => left.priority - right.priority),
      };
    },
  };
}
