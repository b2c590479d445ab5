import { tokenTypes, type Plan } from '@token-vault/contracts';
import type { SealedValue } from '@token-vault/crypto';
import type { Pool } from 'pg';
import type { Reader } from '../fair-reads.ts';
import { totalOf } from '../paging.ts';
import { compile, sql } from '../sql.ts';

export interface TenantRow {
  readonly id: string;
  readonly name: string;
  readonly plan: Plan;
  readonly settings: Record<string, string>;
  readonly created_at: Date;
  readonly modified_at: Date | null;
  readonly modified_by: string | null;
}

export async function findTenant(pool: Pool, tenantId: string): Promise<TenantRow | undefined> {
  const statement = sql`select t.id, t.name, t.plan, t.settings, t.created_at, t.modified_at, t.modified_by
    from rm_tenants.tenant t where t.id = ${tenantId}::uuid and not t.is_deleted`;
  return (await pool.query<TenantRow>({ name: 'find_tenant', ...compile(statement) })).rows[0];
}

/** Null when the tenant has no secret, undefined when the tenant does not exist. */
export async function findWebhookSecret(
  pool: Pool,
  tenantId: string,
): Promise<SealedValue | null | undefined> {
  const statement = sql`select t.webhook_secret from rm_tenants.tenant t
    where t.id = ${tenantId}::uuid and not t.is_deleted`;
  const { rows } = await pool.query<{ webhook_secret: SealedValue | null }>(compile(statement));
  return rows[0]?.webhook_secret;
}

export interface TypeUsage {
  readonly type: string;
  readonly count: number;
  readonly last_created_at: Date | null;
}

/**
 * The number of tokens by type: the counters, less the tokens that have expired and that the sweeper has not ended
 * yet. Types without tokens are left out.
 */
export async function countTokensByType(
  reader: Reader,
  tenantId: string,
  now: Date,
): Promise<readonly TypeUsage[]> {
  const statement = sql`
    with counted as (
      select w.type, (
        (select coalesce(sum(c.count), 0) from rm_tokens.token_count c
         where c.tenant_id = ${tenantId}::uuid and c.type = w.type)
        - (select count(*) from rm_tokens.token e
           where e.tenant_id = ${tenantId}::uuid and e.type = w.type and e.expires_at <= ${now})
      )::float8 as count
      from unnest(${tokenTypes}::text[]) as w (type)
    )
    select counted.type, counted.count, newest.created_at as last_created_at
    from counted
    left join lateral (
      select t.created_at from rm_tokens.token t
      where t.tenant_id = ${tenantId}::uuid and t.type = counted.type
        and (t.expires_at is null or t.expires_at > ${now})
      order by t.seq desc, t.ordinal desc limit 1
    ) newest on true
    where counted.count > 0`;
  return (await reader.query<TypeUsage>(compile(statement))).rows;
}

/** The number of different tokens that have a log entry since `from`. */
export function countActiveTokens(reader: Reader, tenantId: string, from: Date): Promise<number> {
  return totalOf(
    reader,
    sql`select count(distinct e.entity_id)::float8 as total from rm_log.entry e
      where e.tenant_id = ${tenantId}::uuid and e.created_at >= ${from}
        and e.entity_type in ('token', 'card', 'bank') and e.operation in ('create', 'read', 'update', 'use', 'list', 'search')`,
  );
}
