import {
  aliased,
  UnavailableError,
  type AccessRule,
  type ActorKind,
  type ApplicationType,
  type Permission,
  type Plan,
} from '@token-vault/contracts';
import type pg from 'pg';

export type Pool = Pick<pg.Pool, 'query'>;

/** Codes of Postgres: a column or a table is missing. */
const undefinedNames: readonly unknown[] = ['42703', '42P01'];

export interface TenantRow {
  readonly tenant_id: string;
  readonly plan: Plan;
  readonly settings: Record<string, string>;
  readonly accepts_unsigned: boolean;
  readonly tenant_signature: string | null;
}

interface GrantRow extends TenantRow {
  readonly id: string;
  readonly permissions: Permission[];
  readonly rules: AccessRule[];
  /** The signed expiry, which decides. The other column holds it as a time, to find what is due. */
  readonly expires_at_text: string | null;
  readonly signature: string | null;
}

export interface ApplicationRow extends GrantRow {
  readonly kind: Extract<ActorKind, 'application'>;
  readonly name: string;
  readonly type: ApplicationType;
  /** The main key. Null when it was deleted. */
  readonly key_hash: string | null;
  readonly key_id: string | null;
  /** All keys but the main one. */
  readonly keys: readonly StoredKey[];
}

interface StoredKey {
  readonly id: string;
  readonly hash: string;
  readonly created_at: string;
  readonly expires_at?: string;
}

export interface SessionRow extends GrantRow {
  readonly kind: Extract<ActorKind, 'session'>;
  readonly key_hash: string;
  readonly expires_at_text: string;
  readonly application_id: string;
  readonly authorized_by: string;
  /** Null for a session of an older release. */
  readonly opener_key_hash: string | null;
  readonly authorizer_key_hash: string | null;
}

/** One application by whose key a browser signed in to the console. */
export interface ConsoleMember {
  readonly application_id: string;
  readonly application_type: ApplicationType;
  readonly key_hash: string;
}

export interface ConsoleSessionRow extends TenantRow {
  readonly id: string;
  readonly secret_hash: string;
  readonly members: readonly ConsoleMember[];
  /** When it ends unless it is used before. */
  readonly ends_at_text: string;
  readonly expires_at_text: string;
  readonly signature: string | null;
}

const a = aliased('applications', 'application', 'a');
const k = aliased('applications', 'application_key', 'k');
const s = aliased('applications', 'session', 's');
const c = aliased('applications', 'console_session', 'c');
const t = aliased('tenants', 'tenant', 't');

const tenantColumns = `${t.id} as tenant_id, ${t.plan}, ${t.settings}, ${t.accepts_unsigned},
  ${t.signature} as tenant_signature`;
const applicationColumns = `${a.id}, ${a.key_hash}, ${a.permissions}, ${a.rules}, ${a.expires_at_text}, ${a.signature},
  ${a.type}, ${a.key_id}, ${a.keys}, ${a.name}`;

const fromApplications = (where: string): string => `
      from ${a.source}
      join ${t.source} on ${t.id} = ${a.tenant_id} and not ${t.is_deleted}
     where ${where}`;

/** Authorised sessions only: an unauthorised session has no rights. */
const sessions = (where: string): string => `
    select 'session' as kind, ${s.id}, ${s.key_hash}, ${s.permissions}, ${s.rules}, ${s.expires_at_text}, ${s.signature},
           null::text as type, null::uuid as key_id, null::jsonb as keys, null::text as name, ${s.application_id}, ${s.authorized_by},
           ${s.opener_key_hash}, ${s.authorizer_key_hash}, ${tenantColumns}
      from ${s.source}
      join ${t.source} on ${t.id} = ${s.tenant_id} and not ${t.is_deleted}
     where ${where} and ${s.is_authorized}`;

const callingApplications = (where: string): string => `
    select 'application' as kind, ${applicationColumns}, null::uuid as application_id, null::uuid as authorized_by,
           null::text as opener_key_hash, null::text as authorizer_key_hash, ${tenantColumns} ${fromApplications(where)}`;

/**
 * `application_key` only leads from a key to its application. The key is valid when the signed row of that application names it, so a row
 * that is left of a deleted key gives no caller.
 */
const byKey = {
  name: 'caller-by-key',
  text: `${callingApplications(`${a.key_hash} = $1`)}
    union all ${callingApplications(
      `${a.id} = (select ${k.application_id} from ${k.source} where ${k.key_hash} = $1)`,
    )}
    union all ${sessions(`${s.key_hash} = $1`)}`,
};

const applicationById = {
  name: 'application-by-id',
  text: `select 'application' as kind, ${applicationColumns}, ${tenantColumns}
    ${fromApplications(`${a.tenant_id} = $1 and ${a.id} = $2`)}`,
};

const sessionById = { name: 'session-by-id', text: sessions(`${s.tenant_id} = $1 and ${s.id} = $2`) };

const consoleSessions = (where: string): string => `
    select ${c.id}, ${c.secret_hash}, ${c.members}, ${c.ends_at_text}, ${c.expires_at_text}, ${c.signature},
           ${tenantColumns}
      from ${c.source}
      join ${t.source} on ${t.id} = ${c.tenant_id} and not ${t.is_deleted}
     where ${where}`;

const consoleBySecret = { name: 'console-by-secret', text: consoleSessions(`${c.secret_hash} = $1`) };
const consoleById = { name: 'console-by-id', text: consoleSessions(`${c.tenant_id} = $1 and ${c.id} = $2`) };

const tenantById = {
  name: 'tenant-by-id',
  text: `select ${tenantColumns} from ${t.source} where ${t.id} = $1 and not ${t.is_deleted}`,
};

/**
 * The first row. A new release may start on tables of the one before, which lack columns or tables until its projectors have rebuilt them.
 * @throws UnavailableError until then
 */
async function first<Row extends pg.QueryResultRow>(
  pool: Pool,
  query: { readonly name: string; readonly text: string },
  values: readonly string[],
): Promise<Row | undefined> {
  try {
    return (await pool.query<Row>({ ...query, values: [...values] })).rows[0];
  } catch (cause) {
    if (!undefinedNames.includes((cause as { code?: unknown }).code)) throw cause;
    throw new UnavailableError('The read models are being rebuilt for this release.', { cause });
  }
}

/** Each query gives at most one row. */
export const rows = {
  async byKey(pool: Pool, hash: string): Promise<ApplicationRow | SessionRow | undefined> {
    return first(pool, byKey, [hash]);
  },
  async application(pool: Pool, tenantId: string, id: string): Promise<ApplicationRow | undefined> {
    return first(pool, applicationById, [tenantId, id]);
  },
  async session(pool: Pool, tenantId: string, id: string): Promise<SessionRow | undefined> {
    return first(pool, sessionById, [tenantId, id]);
  },
  async consoleBySecret(pool: Pool, hash: string): Promise<ConsoleSessionRow | undefined> {
    return first(pool, consoleBySecret, [hash]);
  },
  async console(pool: Pool, tenantId: string, id: string): Promise<ConsoleSessionRow | undefined> {
    return first(pool, consoleById, [tenantId, id]);
  },
  async tenant(pool: Pool, tenantId: string): Promise<TenantRow | undefined> {
    return first(pool, tenantById, [tenantId]);
  },
};
