import { aliased, type Plan } from '@token-vault/contracts';
import type { Pool } from 'pg';

export interface TenantSummary {
  readonly id: string;
  readonly name: string;
  readonly plan: Plan;
  readonly createdAt: Date;
}

const pageSize = 500;
const t = aliased('tenants', 'tenant', 't');

/** All tenants that are not deleted, ordered by id, a page at a time, from their read model. For operators. */
export async function* listTenants(pool: Pool): AsyncGenerator<TenantSummary, void> {
  let after = '00000000-0000-0000-0000-000000000000';
  for (;;) {
    const { rows } = await pool.query<TenantSummary>(
      `select ${t.id}, ${t.name}, ${t.plan}, ${t.created_at} as "createdAt" from ${t.source}
        where ${t.id} > $1 and not ${t.is_deleted} order by ${t.id} limit $2`,
      [after, pageSize],
    );
    yield* rows;
    const last = rows.at(-1);
    if (!last || rows.length < pageSize) return;
    after = last.id;
  }
}
