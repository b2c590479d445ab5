import type { AccessRule, ActorKind, ApplicationType, Permission, Plan } from '@token-vault/contracts';
import type pg from 'pg';

export type Pool = Pick<pg.Pool, 'query'>;

export interface TenantRow {
  readonly tenant_id: string;
  readonly plan: Plan;
  readonly settings: Record<string, string>;
  readonly accepts_unsigned: boolean;
  readonly tenant_signature: string | null;
}

interface GrantRow extends TenantRow {
  readonly id: string;
  readonly key_hash: string;
  readonly permissions: Permission[];
  readonly rules: AccessRule[];
  /** What is signed, and decided by: the other column of the time is for finding what is due. */
  readonly expires_at_text: string | null;
  readonly signature: string | null;
}

export interface ApplicationRow extends GrantRow {
  readonly kind: Extract<ActorKind, 'application'>;
  readonly type: ApplicationType;
}

export interface SessionRow extends GrantRow {
  readonly kind: Extract<ActorKind, 'session'>;
  readonly expires_at_text: string;
  readonly application_id: string;
  readonly authorized_by: string;
}

const tenantColumns =
  't.id as tenant_id, t.plan, t.settings, t.accepts_unsigned, t.signature as tenant_signature';
const applicationColumns = 'a.id, a.key_hash, a.permissions, a.rules, a.expires_at_text, a.signature, a.type';

const fromApplications = (where: string): string => `
      from rm_applications.application a
      join rm_tenants.tenant t on t.id = a.tenant_id and not t.is_deleted
     where ${where}`;

/** Those that are authorized: before that they may do nothing. */
const sessions = (where: string): string => `
    select 'session' as kind, s.id, s.key_hash, s.permissions, s.rules, s.expires_at_text, s.signature,
           null::text as type, s.application_id, s.authorized_by, ${tenantColumns}
      from rm_applications.session s
      join rm_tenants.tenant t on t.id = s.tenant_id and not t.is_deleted
     where ${where} and s.is_authorized`;

const byKey = {
  name: 'caller-by-key',
  text: `
    select 'application' as kind, ${applicationColumns}, null::uuid as application_id, null::uuid as authorized_by,
           ${tenantColumns} ${fromApplications('a.key_hash = $1')}
    union all ${sessions('s.key_hash = $1')}`,
};

const applicationById = {
  name: 'application-by-id',
  text: `select 'application' as kind, ${applicationColumns}, ${tenantColumns}
    ${fromApplications('a.tenant_id = $1 and a.id = $2')}`,
};

const sessionById = { name: 'session-by-id', text: sessions('s.tenant_id = $1 and s.id = $2') };

const tenantById = {
  name: 'tenant-by-id',
  text: `select ${tenantColumns} from rm_tenants.tenant t where t.id = $1 and not t.is_deleted`,
};

/** At most one row each. */
export const rows = {
  async byKey(pool: Pool, hash: string): Promise<ApplicationRow | SessionRow | undefined> {
    return (await pool.query<ApplicationRow | SessionRow>({ ...byKey, values: [hash] })).rows[0];
  },
  async application(pool: Pool, tenantId: string, id: string): Promise<ApplicationRow | undefined> {
    return (await pool.query<ApplicationRow>({ ...applicationById, values: [tenantId, id] })).rows[0];
  },
  async session(pool: Pool, tenantId: string, id: string): Promise<SessionRow | undefined> {
    return (await pool.query<SessionRow>({ ...sessionById, values: [tenantId, id] })).rows[0];
  },
  async tenant(pool: Pool, tenantId: string): Promise<TenantRow | undefined> {
    return (await pool.query<TenantRow>({ ...tenantById, values: [tenantId] })).rows[0];
  },
};
