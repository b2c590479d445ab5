import { aliased, streams } from '@token-vault/contracts';
import { TenantKeysMissingError } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import { errorFields, type Logger } from '@token-vault/observability';
import { setTimeout as delay } from 'node:timers/promises';
import type { Pool } from 'pg';
import { rowsOf } from '../read-model.ts';
import { readHistory, type InvocationHistory } from './invocation.ts';
import { createPlaces } from './lanes.ts';
import { RunnerStoppedError, type Runs } from './run.ts';

export interface BacklogOptions {
  readonly store: Pick<EventStore, 'readStream'>;
  /** The pool of the read models. */
  readonly pool: Pool;
  readonly logger: Logger;
  readonly runs: Pick<Runs, 'handle'>;
  readonly pollMs?: number;
}

export interface Backlog {
  /**
   * Takes an asynchronous invocation from a feed. Resolves when the feed may forget it: it is claimed, or no place is
   * free and it waits in the read model. Never rejects.
   */
  take(history: InvocationHistory): Promise<void>;
  /** Starts no more runs, and waits for the running ones. */
  close(): Promise<void>;
}

/**
 * Places of one tenant. Fewer than its processes in the sandbox, so that its synchronous calls find a process,
 * however long the backlog is.
 */
const placesOfTenant = 3;
/** The page size of a look, both in tenants and in ids of one tenant. */
const pageSize = 50;
const tenantsAtOnce = 200;
/** The shortest time between two looks. */
const restMs = 50;
/**
 * The assumed delay of the read model: a run that has ended is skipped for this time. After it, reading its stream is
 * needed.
 */
const latenessMs = 5_000;
const retryMs = 1_000;

const firstTenant = '00000000-0000-0000-0000-000000000000';

const w = aliased('invocations', 'waiting', 'w');
const r = aliased('invocations', 'running', 'r');

/**
 * Reads the index tenant by tenant, so that the cost does not depend on the number of rows. For each tenant it gives
 * the oldest invocations that are not running.
 */
const waiting = `
with recursive tenant (id, ordinal) as (
  (select ${w.tenant_id}, 1 from ${w.source} where ${w.tenant_id} > $1 order by ${w.tenant_id} limit 1)
  union all
  select (select ${w.tenant_id} from ${w.source} where ${w.tenant_id} > t.id order by ${w.tenant_id} limit 1), t.ordinal + 1
  from tenant t where t.id is not null and t.ordinal < ${tenantsAtOnce}
)
select t.id as tenant_id, due.id from tenant t left join lateral (
  select ${w.id} from ${w.source}
  where ${w.tenant_id} = t.id and ${w.id} <> all ($2::uuid[])
    and not exists (select from ${r.source} where ${r.id} = ${w.id})
  order by ${w.invoked_at}, ${w.id} limit ${pageSize}
) due on true
where t.id is not null
order by t.ordinal`;

/**
 * Runs asynchronous invocations, a few of each tenant at once. The waiting ones are in the read model, neither in
 * memory nor in a feed: a tenant may have a million. Any number of replicas may run this; the runner that claims an
 * invocation in the log runs it.
 */
export function startBacklog(options: BacklogOptions): Backlog {
  return new Follower(options);
}

class Follower implements Backlog {
  readonly #options: BacklogOptions;
  readonly #abort = new AbortController();
  readonly #places = createPlaces(placesOfTenant);
  readonly #inHand = new Map<string, Promise<void>>();
  /** Ids that were read and wait for a place, by tenant. */
  readonly #lines = new Map<string, string[]>();
  /** The time of ending, by id: the read model may not show it yet. */
  readonly #ended = new Map<string, number>();
  /** Tenants that may have more invocations in the read model than in their line. */
  readonly #behind = new Set<string>();
  readonly #looking: Promise<void>;
  #isWoken = false;
  #wake: () => void = () => undefined;

  constructor(options: BacklogOptions) {
    this.#options = options;
    this.#looking = this.#lookAgainAndAgain();
  }

  async take(history: InvocationHistory): Promise<void> {
    const { invocation } = history;
    if (!invocation || this.#abort.signal.aborted) return;
    const { tenantId, id } = invocation;
    if (this.#inHand.has(id)) return;
    await (this.#begin(tenantId, id, history) ?? this.#behind.add(tenantId));
  }

  async close(): Promise<void> {
    this.#abort.abort();
    await this.#looking;
    await Promise.all(this.#inHand.values());
  }

  /** Resolves when the invocation is claimed or over. Undefined when there is no free place. */
  #begin(tenantId: string, id: string, history?: InvocationHistory): Promise<void> | undefined {
    const leave = this.#places.take(tenantId);
    if (!leave) return undefined;
    const claimed = Promise.withResolvers<void>();
    const over = this.#runToEnd(tenantId, id, history, claimed.resolve).finally(() => {
      this.#inHand.delete(id);
      this.#ended.set(id, performance.now());
      leave();
      this.#advance(tenantId);
    });
    this.#inHand.set(id, over);
    return Promise.race([claimed.promise, over]);
  }

  /** Repeats while the event store or Postgres is unavailable. */
  async #runToEnd(
    tenantId: string,
    id: string,
    first: InvocationHistory | undefined,
    onClaimed: () => void,
  ): Promise<void> {
    const { store, runs, logger } = this.#options;
    for (let history = first; !this.#abort.signal.aborted; history = undefined) {
      try {
        return await runs.handle(
          history ?? (await readHistory(store, streams.invocation(tenantId, id))),
          onClaimed,
        );
      } catch (error) {
        // When the tenant was deleted there are no keys, and nothing can be run or recorded.
        if (error instanceof TenantKeysMissingError || error instanceof RunnerStoppedError) return;
        logger.warn({ tenant_id: tenantId, ...errorFields(error) }, 'an asynchronous invocation is delayed');
        await this.#rest(retryMs);
      }
    }
  }

  #advance(tenantId: string): void {
    const line = this.#lines.get(tenantId) ?? [];
    for (let id = line[0]; id !== undefined && !this.#abort.signal.aborted; id = line[0]) {
      if (!this.#inHand.has(id) && this.#begin(tenantId, id) === undefined) return;
      line.shift();
    }
    this.#lines.delete(tenantId);
    if (!this.#behind.has(tenantId)) return;
    this.#isWoken = true;
    this.#wake();
  }

  async #lookAgainAndAgain(): Promise<void> {
    const { logger, pollMs = 1_000 } = this.#options;
    let after = firstTenant;
    while (!this.#abort.signal.aborted) {
      this.#isWoken = false;
      try {
        after = await this.#look(after);
      } catch (error) {
        logger.warn(errorFields(error), 'waiting invocations could not be read');
      }
      await this.#rest(restMs);
      const woken = new Promise<void>((resolve) => (this.#wake = resolve));
      if (!this.#isWoken) await Promise.race([woken, this.#rest(pollMs)]);
    }
  }

  /** Gives the tenant after which the next look begins. */
  async #look(after: string): Promise<string> {
    for (const [id, at] of this.#ended) if (performance.now() - at > latenessMs) this.#ended.delete(id);
    const known = [...this.#inHand.keys(), ...this.#ended.keys()];
    const rows = await rowsOf<{ tenant_id: string; id: string | null }>(this.#options.pool, waiting, [
      after,
      known,
    ]);
    const found = new Map<string, string[]>();
    for (const { tenant_id: tenantId, id } of rows) {
      const ids = found.get(tenantId) ?? [];
      if (id !== null) ids.push(id);
      found.set(tenantId, ids);
    }
    // Invocations that a feed left to the read model meanwhile are found by the next look.
    if (after === firstTenant) this.#behind.clear();
    for (const [tenantId, ids] of found) {
      if (ids.length === pageSize) this.#behind.add(tenantId);
      // An existing line holds older invocations.
      if (!this.#lines.has(tenantId)) this.#lines.set(tenantId, ids);
      this.#advance(tenantId);
    }
    return found.size < tenantsAtOnce ? firstTenant : ([...found.keys()].at(-1) ?? firstTenant);
  }

  #rest(ms: number): Promise<void> {
    return delay(ms, undefined, { signal: this.#abort.signal }).catch(() => undefined);
  }
}
