import { aliased } from '@token-vault/contracts';
import type { Clock } from '@token-vault/operations';
import { errorFields, type Logger } from '@token-vault/observability';
import { setTimeout as delay } from 'node:timers/promises';
import type { Pool } from 'pg';
import { rowsOf } from '../read-model.ts';
import { createLocks } from './locks.ts';

interface Due {
  readonly tenantId: string;
  readonly id: string;
}

export interface DueWorkOptions {
  /** The pool of the read models. */
  readonly pool: Pool;
  readonly connectionString: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly failLost: (due: Due) => Promise<void>;
  readonly deliver: (due: Due) => Promise<void>;
  readonly alert: (due: Due) => Promise<void>;
  readonly pollMs?: number;
}

/** Places of one kind of work: of all tenants, and of each. */
const places = 64;
const placesOfTenant = 8;
/** The assumed delay of the read model: what was just done is not due again for this time. The first retry comes later. */
const latenessMs = 1_000;
/** The shortest time between two polls. */
const restMs = 50;

const r = aliased('invocations', 'running', 'r');
const d = aliased('invocations', 'delivery', 'd');
const a = aliased('alerts', 'delivery', 'a');

/**
 * The work that is due, in the order in which tenants take turns: first of a tenant that has the fewest places ($3, $4). Reads the index
 * tenant by tenant, so that the cost does not depend on the number of rows.
 */
const dueOf = (
  { source, tenant_id, id }: Readonly<Record<'source' | 'tenant_id' | 'id', string>>,
  at: string,
): string => `
with recursive tenant (id) as (
  (select ${tenant_id} from ${source} order by ${tenant_id} limit 1)
  union all
  select (select ${tenant_id} from ${source} where ${tenant_id} > t.id order by ${tenant_id} limit 1)
  from tenant t where t.id is not null
)
select t.id as tenant_id, due.id from tenant t
left join unnest($3::uuid[], $4::integer[]) as busy (tenant_id, places) on busy.tenant_id = t.id
cross join lateral (
  select ${id} as id, ${at} as at, row_number() over (order by ${at}) + coalesce(busy.places, 0) as place
  from ${source} where ${tenant_id} = t.id and ${at} <= $1 and ${id} <> all ($2::uuid[])
  order by ${at} limit ${placesOfTenant} - coalesce(busy.places, 0)
) due
order by due.place, due.at limit ${places}`;

const queries = {
  alert: dueOf(a, a.next_at),
  running: dueOf(r, r.deadline),
  delivery: dueOf(d, d.next_at),
} as const;
type Kind = keyof typeof queries;

interface InHand {
  readonly kind: Kind;
  readonly tenantId: string;
  readonly over: Promise<void>;
}

/**
 * Does work that is due by time: fails runs whose runner is gone, delivers results and security webhooks. Tenants take turns, because a
 * receiver may not answer for long. Any number of replicas may run it. Due work is in the read model, so restarts lose nothing; the stream
 * decides whether it is really due.
 */
export function startDueWork(options: DueWorkOptions): { close(): Promise<void> } {
  return new DueWork(options);
}

class DueWork {
  readonly #options: DueWorkOptions;
  readonly #abort = new AbortController();
  readonly #locks: ReturnType<typeof createLocks>;
  readonly #inHand = new Map<string, InHand>();
  /** The time of ending, by id. */
  readonly #ended = new Map<string, number>();
  readonly #polling: Promise<void>;
  #wake: () => void = () => undefined;

  constructor(options: DueWorkOptions) {
    this.#options = options;
    this.#locks = createLocks(options.connectionString, options.logger);
    this.#polling = this.#pollAgainAndAgain();
  }

  async close(): Promise<void> {
    this.#abort.abort();
    await this.#polling;
    await Promise.all([...this.#inHand.values()].map(({ over }) => over));
    await this.#locks.close();
  }

  async #pollAgainAndAgain(): Promise<void> {
    const { logger, pollMs = 1_000 } = this.#options;
    while (!this.#abort.signal.aborted) {
      const woken = new Promise<void>((resolve) => (this.#wake = resolve));
      await this.#poll().catch((error: unknown) =>
        logger.warn(errorFields(error), 'due steps of invocations could not be read'),
      );
      await this.#rest(restMs);
      await Promise.race([woken, this.#rest(pollMs - restMs)]);
    }
  }

  async #poll(): Promise<void> {
    const { alert, failLost, deliver } = this.#options;
    for (const [id, at] of this.#ended) if (performance.now() - at > latenessMs) this.#ended.delete(id);
    for (const due of await this.#dueNow('alert')) this.#start('alert', due, alert);
    for (const due of await this.#dueNow('running')) this.#start('running', due, failLost);
    for (const due of await this.#dueNow('delivery')) this.#start('delivery', due, deliver);
  }

  async #dueNow(kind: Kind): Promise<readonly Due[]> {
    const { pool, clock } = this.#options;
    const known = [...this.#inHand.keys(), ...this.#ended.keys()];
    const taken = this.#takenOf(kind);
    const values = [clock.now(), known, [...taken.keys()], [...taken.values()]];
    const rows = await rowsOf<{ tenant_id: string; id: string }>(pool, queries[kind], values);
    return rows.map(({ tenant_id: tenantId, id }) => ({ tenantId, id }));
  }

  /** The places that each tenant has. */
  #takenOf(kind: Kind): Map<string, number> {
    const taken = new Map<string, number>();
    for (const each of this.#inHand.values())
      if (each.kind === kind) taken.set(each.tenantId, (taken.get(each.tenantId) ?? 0) + 1);
    return taken;
  }

  #start(kind: Kind, due: Due, work: (due: Due) => Promise<void>): void {
    const { tenantId, id } = due;
    if (this.#inHand.has(id) || this.#isFull(kind)) return;
    const over = this.#locks
      .hold(id, () => work(due))
      .catch((error: unknown) =>
        this.#options.logger.warn(
          { tenant_id: tenantId, ...errorFields(error) },
          'a due step of an invocation or a security webhook failed',
        ),
      )
      .finally(() => {
        const leftOthers = this.#isFull(kind) || this.#takenOf(kind).get(tenantId) === placesOfTenant;
        this.#inHand.delete(id);
        this.#ended.set(id, performance.now());
        if (leftOthers) this.#wake();
      });
    this.#inHand.set(id, { kind, tenantId, over });
  }

  #isFull(kind: Kind): boolean {
    return [...this.#takenOf(kind).values()].reduce((sum, count) => sum + count, 0) >= places;
  }

  #rest(ms: number): Promise<void> {
    return delay(ms, undefined, { signal: this.#abort.signal }).catch(() => undefined);
  }
}
