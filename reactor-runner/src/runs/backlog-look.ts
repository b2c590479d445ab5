import { aliased } from '@token-vault/contracts';
import type { Pool } from 'pg';
import { rowsOf } from '../read-model.ts';

/** The most ids of one application that a look gives, and the most of one tenant. */
const pageSize = 50;
const pageSizeOfTenant = 2 * pageSize;
/** Where more applications of a tenant have waiting invocations, the next look continues behind the last one. */
const applicationsAtOnce = 20;
const tenantsAtOnce = 200;

const firstTenant = '00000000-0000-0000-0000-000000000000';

const w = aliased('invocations', 'waiting', 'w');
const r = aliased('invocations', 'running', 'r');

/**
 * Reads the index tenant by tenant, and application by application, so that the cost does not depend on the number of rows. For each application it gives
 * the oldest invocations that are not running: when they are too many for the tenant, the same number of each.
 */
const statement = `
with recursive tenant (id, ordinal) as (
  (select ${w.tenant_id}, 1 from ${w.source} where ${w.tenant_id} > $1 order by ${w.tenant_id} limit 1)
  union all
  select (select ${w.tenant_id} from ${w.source} where ${w.tenant_id} > t.id order by ${w.tenant_id} limit 1), t.ordinal + 1
  from tenant t where t.id is not null and t.ordinal < ${tenantsAtOnce}
)
select t.id as tenant_id, due.application_id, due.id, due.ordinal from tenant t
left join unnest($3::uuid[], $4::text[]) as last (tenant_id, application_id) on last.tenant_id = t.id
left join lateral (
  with recursive application (id, ordinal) as (
    (select ${w.application_id}, 1 from ${w.source} where ${w.tenant_id} = t.id and ${w.application_id} > coalesce(last.application_id, '')
      order by ${w.application_id} limit 1)
    union all
    select (select ${w.application_id} from ${w.source} where ${w.tenant_id} = t.id and ${w.application_id} > a.id
      order by ${w.application_id} limit 1), a.ordinal + 1
    from application a where a.id is not null and a.ordinal < ${applicationsAtOnce}
  )
  select a.id as application_id, oldest.id, a.ordinal, oldest.turn from application a left join lateral (
    select o.id, row_number() over (order by o.invoked_at, o.id) as turn from (
      select ${w.id}, ${w.invoked_at} from ${w.source}
      where ${w.tenant_id} = t.id and ${w.application_id} = a.id and ${w.id} <> all ($2::uuid[])
        and not exists (select from ${r.source} where ${r.id} = ${w.id})
      order by ${w.invoked_at}, ${w.id} limit ${pageSize}
    ) o
  ) oldest on true
  where a.id is not null
  order by oldest.turn nulls first, a.ordinal limit ${pageSizeOfTenant}
) due on true
where t.id is not null
order by t.ordinal, due.turn nulls first, due.ordinal`;

/** The waiting invocations of a tenant that a look found, by application. */
export interface WaitingOfTenant {
  readonly idsOf: ReadonlyMap<string, string[]>;
  /** Whether the read model may hold more. */
  readonly hasMore: boolean;
}

interface Row {
  readonly tenant_id: string;
  readonly application_id: string | null;
  readonly id: string | null;
  readonly ordinal: number | null;
}

/** Looks into the read model, a page of tenants at a time. */
export class BacklogLook {
  readonly #pool: Pool;
  #afterTenant = firstTenant;
  /** The application behind which the next look at the tenant begins. */
  readonly #afterApplication = new Map<string, string>();

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /** Whether the next look begins with the first tenant. */
  get isAtStart(): boolean {
    return this.#afterTenant === firstTenant;
  }

  /** @param known ids that are not given */
  async next(known: readonly string[]): Promise<ReadonlyMap<string, WaitingOfTenant>> {
    const after = [[...this.#afterApplication.keys()], [...this.#afterApplication.values()]];
    const rows = await rowsOf<Row>(this.#pool, statement, [this.#afterTenant, known, ...after]);
    const found = new Map<string, WaitingOfTenant>();
    for (const [tenantId, its] of Map.groupBy(rows, (row) => row.tenant_id))
      found.set(tenantId, this.#pageOf(tenantId, its));
    this.#afterTenant = found.size < tenantsAtOnce ? firstTenant : ([...found.keys()].at(-1) ?? firstTenant);
    return found;
  }

  #pageOf(tenantId: string, rows: readonly Row[]): WaitingOfTenant {
    const idsOf = new Map<string, string[]>();
    for (const { application_id: applicationId, id } of rows) {
      if (applicationId === null) continue;
      const ids = idsOf.get(applicationId) ?? [];
      if (id !== null) ids.push(id);
      idsOf.set(applicationId, ids);
    }
    const wasBehind = this.#afterApplication.delete(tenantId);
    const isFull = idsOf.size === applicationsAtOnce;
    // The database sorts texts in its own order.
    const last = rows.find(({ ordinal }) => ordinal === applicationsAtOnce)?.application_id;
    if (typeof last === 'string') this.#afterApplication.set(tenantId, last);
    const isCut =
      rows.length === pageSizeOfTenant || [...idsOf.values()].some((ids) => ids.length === pageSize);
    return { idsOf, hasMore: isCut || isFull || wasBehind };
  }
}
