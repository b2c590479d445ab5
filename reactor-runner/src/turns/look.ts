import type { Pool } from 'pg';
import { rowsOf } from '../read-model.ts';

/** The most ids of one application that a look gives, and the most of one tenant. */
const pageSize = 50;
const pageSizeOfTenant = 2 * pageSize;
/** Where more applications of a tenant have waiting work, the next look continues behind the last one. */
const applicationsAtOnce = 20;
const tenantsAtOnce = 200;

const firstTenant = '00000000-0000-0000-0000-000000000000';

/** The table of work that waits: its name in statements, and those of its columns. */
export interface WaitingTable {
  readonly source: string;
  readonly id: string;
  readonly tenantId: string;
  /** The application, with its sessions, whose turn the work takes. */
  readonly applicationId: string;
  /** The work that is oldest by it comes first. Rows in which it is null do not wait. */
  readonly at: string;
}

/**
 * Reads the index tenant by tenant, and application by application, so that the cost does not depend on the number of rows. For each application it gives
 * the oldest work that may begin: when it is too much for the tenant, the same number of each.
 * @param mayBegin a condition on a row, with parameters from $5 on
 */
export const lookStatement = (w: WaitingTable, mayBegin: string): string => `
with recursive tenant (id, ordinal) as (
  (select ${w.tenantId}, 1 from ${w.source} where ${w.tenantId} > $1 and ${w.at} is not null order by ${w.tenantId} limit 1)
  union all
  select (select ${w.tenantId} from ${w.source} where ${w.tenantId} > tenant.id and ${w.at} is not null order by ${w.tenantId} limit 1),
    tenant.ordinal + 1
  from tenant where tenant.id is not null and tenant.ordinal < ${tenantsAtOnce}
)
select tenant.id as tenant_id, due.application_id, due.id, due.ordinal from tenant
left join unnest($3::uuid[], $4::text[]) as last (tenant_id, application_id) on last.tenant_id = tenant.id
left join lateral (
  with recursive application (id, ordinal) as (
    (select ${w.applicationId}, 1 from ${w.source}
      where ${w.tenantId} = tenant.id and ${w.applicationId} > coalesce(last.application_id, '') and ${w.at} is not null
      order by ${w.applicationId} limit 1)
    union all
    select (select ${w.applicationId} from ${w.source} where ${w.tenantId} = tenant.id and ${w.applicationId} > application.id and ${w.at} is not null
      order by ${w.applicationId} limit 1), application.ordinal + 1
    from application where application.id is not null and application.ordinal < ${applicationsAtOnce}
  )
  select application.id as application_id, oldest.id, application.ordinal, oldest.turn from application left join lateral (
    select o.id, row_number() over (order by o.at, o.id) as turn from (
      select ${w.id} as id, ${w.at} as at from ${w.source}
      where ${w.tenantId} = tenant.id and ${w.applicationId} = application.id and ${w.id} <> all ($2::uuid[]) and ${mayBegin}
      order by ${w.at}, ${w.id} limit ${pageSize}
    ) o
  ) oldest on true
  where application.id is not null
  order by oldest.turn nulls first, application.ordinal limit ${pageSizeOfTenant}
) due on true
where tenant.id is not null
order by tenant.ordinal, due.turn nulls first, due.ordinal`;

/** The waiting work of a tenant that a look found, by application. */
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
export class Look {
  readonly #pool: Pool;
  readonly #statement: string;
  #afterTenant = firstTenant;
  /** The application behind which the next look at the tenant begins. */
  readonly #afterApplication = new Map<string, string>();

  /** @param statement one that `lookStatement` made */
  constructor(pool: Pool, statement: string) {
    this.#pool = pool;
    this.#statement = statement;
  }

  /** Whether the next look begins with the first tenant. */
  get isAtStart(): boolean {
    return this.#afterTenant === firstTenant;
  }

  /**
   * @param known ids that are not given
   * @param values those of the parameters of the statement's condition
   */
  async next(
    known: readonly string[],
    values: readonly unknown[] = [],
  ): Promise<ReadonlyMap<string, WaitingOfTenant>> {
    const after = [[...this.#afterApplication.keys()], [...this.#afterApplication.values()]];
    const all = [this.#afterTenant, known, ...after, ...values];
    const rows = await rowsOf<Row>(this.#pool, this.#statement, all);
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
