import { aliased, tokenTypes, type Plan } from '@token-vault/contracts';
import type { SealedValue } from '@token-vault/crypto';
import type { Pool } from 'pg';
import type { Reader } from '../fair-reads.ts';

export interface TenantRow {
  readonly id: string;
  readonly name: string;
  readonly plan: Plan;
  readonly settings: Record<string, string>;
  readonly created_at: Date;
  readonly modified_at: Date | null;
  readonly modified_by: string | null;
  readonly accepts_unsigned: boolean;
  readonly signature: string | null;
}

const t = aliased('tenants', 'tenant', 't');
const byId = {
  name: 'find_tenant',
  text: `select ${t.id}, ${t.name}, ${t.plan}, ${t.settings}, ${t.created_at}, ${t.modified_at}, ${t.modified_by},
      ${t.accepts_unsigned}, ${t.signature}
    from ${t.source} where ${t.id} = $1 and not ${t.is_deleted}`,
};
const secretById = `select ${t.webhook_secret} from ${t.source} where ${t.id} = $1 and not ${t.is_deleted}`;

export async function findTenant(pool: Pool, tenantId: string): Promise<TenantRow | undefined> {
  return (await pool.query<TenantRow>({ ...byId, values: [tenantId] })).rows[0];
}

/** Null when the tenant has no secret, undefined when the tenant does not exist. */
export async function findWebhookSecret(
  pool: Pool,
  tenantId: string,
): Promise<SealedValue | null | undefined> {
  const { rows } = await pool.query<{ webhook_secret: SealedValue | null }>(secretById, [tenantId]);
  return rows[0]?.webhook_secret;
}

export interface TypeUsage {
  readonly type: string;
  readonly count: number;
  readonly last_created_at: Date | null;
}

const token = aliased('tokens', 'token', 'token');
const counter = aliased('tokens', 'token_count', 'counter');
const usage = `
  with counted as (
    select w.type, (
      (select coalesce(sum(${counter.count}), 0) from ${counter.source}
       where ${counter.tenant_id} = $1 and ${counter.type} = w.type)
      - (select count(*) from ${token.source}
         where ${token.tenant_id} = $1 and ${token.type} = w.type and ${token.expires_at} <= $2)
    )::float8 as count
    from unnest($3::text[]) as w (type)
  )
  select counted.type, counted.count, newest.created_at as last_created_at
  from counted
  left join lateral (
    select ${token.created_at} from ${token.source}
    where ${token.tenant_id} = $1 and ${token.type} = counted.type
      and (${token.expires_at} is null or ${token.expires_at} > $2)
    order by ${token.seq} desc, ${token.ordinal} desc limit 1
  ) newest on true
  where counted.count > 0`;

/**
 * The number of tokens by type: the counters, minus the expired tokens that the sweeper has not ended yet. Types
 * without tokens are left out.
 */
export async function countTokensByType(
  reader: Reader,
  tenantId: string,
  now: Date,
): Promise<readonly TypeUsage[]> {
  return (await reader.query<TypeUsage>({ text: usage, values: [tenantId, now, tokenTypes] })).rows;
}

const a = aliased('log_summary', 'active_token_count', 'a');
const activeTokens = `
  select to_char(${a.month} at time zone 'UTC', 'YYYY-MM') as month, ${a.count}::float8 as count
  from ${a.source} where ${a.tenant_id} = $1 and ${a.month} >= $2`;

export interface MonthUsage {
  /** `2030-01` */
  readonly month: string;
  readonly count: number;
}

/**
 * The number of different tokens that have a log entry in each month from `from` on, the first instant of a month. Months without such
 * tokens are left out.
 */
export async function countActiveTokens(
  reader: Reader,
  tenantId: string,
  from: Date,
): Promise<readonly MonthUsage[]> {
  return (await reader.query<MonthUsage>({ text: activeTokens, values: [tenantId, from] })).rows;
}
