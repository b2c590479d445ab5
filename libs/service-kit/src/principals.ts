import type { Principal } from '@token-vault/access';
import type { AccessRule, Actor, ActorKind, ApplicationType, Permission, Plan } from '@token-vault/contracts';
import type pg from 'pg';

/** What makes a caller, from the read models `applications` and `tenants`. */
export interface PrincipalRow {
  readonly kind: ActorKind & ('application' | 'session');
  readonly id: string;
  readonly application_id: string;
  readonly application_type: ApplicationType;
  readonly key_hash: string;
  readonly permissions: Permission[];
  readonly rules: AccessRule[];
  readonly expires_at: Date | null;
  readonly tenant_id: string;
  readonly plan: Plan;
  readonly settings: Record<string, string>;
  /** Of a session. */
  readonly authorized_by: string | null;
  readonly authorizer_permissions: Permission[] | null;
  readonly authorizer_rules: AccessRule[] | null;
}

type Pool = Pick<pg.Pool, 'query'>;

/** A session is there as long as its application, and the one that authorized it, are. */
const principals = (ofApplication: string, ofSession: string): string => `
    select 'application' as kind, a.id, a.id as application_id, a.type as application_type, a.key_hash,
           a.permissions, a.rules, a.expires_at, t.id as tenant_id, t.plan, t.settings,
           null::text as authorized_by, null::jsonb as authorizer_permissions, null::jsonb as authorizer_rules
      from rm_applications.application a
      join rm_tenants.tenant t on t.id = a.tenant_id and not t.is_deleted
     where ${ofApplication}
    union all
    select 'session', s.id, s.application_id, a.type, s.key_hash,
           s.permissions, s.rules, least(s.expires_at, a.expires_at, g.expires_at), t.id, t.plan, t.settings,
           g.id::text, g.permissions, g.rules
      from rm_applications.session s
      join rm_applications.application a on a.id = s.application_id
      join rm_applications.application g on g.id::text = s.authorized_by::text
      join rm_tenants.tenant t on t.id = s.tenant_id and not t.is_deleted
     where ${ofSession} and s.is_authorized`;

const byKey = { name: 'principal-by-key', text: principals('a.key_hash = $1', 's.key_hash = $1') };
const byActor = {
  name: 'principal-by-actor',
  text: principals('a.tenant_id = $1 and a.id = $2', 's.tenant_id = $1 and s.id = $2'),
};

export async function findPrincipalsByKey(pool: Pool, keyHash: string): Promise<PrincipalRow[]> {
  return (await pool.query<PrincipalRow>({ ...byKey, values: [keyHash] })).rows;
}

export async function findPrincipalByActor(
  pool: Pool,
  tenantId: string,
  { kind, id }: Actor,
): Promise<PrincipalRow | undefined> {
  const { rows } = await pool.query<PrincipalRow>({ ...byActor, values: [tenantId, id] });
  return rows.find((row) => row.kind === kind);
}

export function toPrincipal(row: PrincipalRow): Principal {
  return {
    tenant: { id: row.tenant_id, plan: row.plan, settings: row.settings },
    actor: { kind: row.kind, id: row.id },
    applicationId: row.application_id,
    applicationType: row.application_type,
    permissions: row.permissions,
    rules: byPriority(row.rules),
    ...(row.authorized_by === null ? {} : { authorizedBy: row.authorized_by }),
    ...(row.authorizer_permissions && row.authorizer_rules
      ? { authorizer: { permissions: row.authorizer_permissions, rules: byPriority(row.authorizer_rules) } }
      : {}),
  };
}

const byPriority = (rules: readonly AccessRule[]): AccessRule[] =>
  [...rules].sort((left, right) => left.priority - right.priority);
