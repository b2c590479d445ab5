import { aliased } from '@token-vault/contracts';
import type { Clock } from '@token-vault/operations';
import { errorFields, type Logger } from '@token-vault/observability';
import { setTimeout as delay } from 'node:timers/promises';
import type { Pool } from 'pg';
import { Look, lookStatement, type WaitingTable } from '../turns/look.ts';
import { WaitingLines, type Waiting } from '../turns/waiting-lines.ts';
import { DeliveryPlaces } from './delivery-places.ts';
import { createLocks } from './locks.ts';

/** Does what is due. Sends nothing more when the signal is aborted. */
type Work = (due: Pick<Waiting, 'tenantId' | 'id'>, signal: AbortSignal) => Promise<void>;

export interface DueWorkOptions {
  /** The pool of the read models. */
  readonly pool: Pool;
  readonly connectionString: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly failLost: Work;
  readonly deliver: Work;
  readonly alert: Work;
  readonly pollMs?: number;
}

/** The assumed delay of the read model: what was just done is not due again for this time. The first retry comes later. */
const latenessMs = 1_000;
/** The shortest time between two polls. */
const restMs = 50;

const r = aliased('invocations', 'running', 'r');
const d = aliased('invocations', 'delivery', 'd');
const a = aliased('alerts', 'delivery', 'a');

const dueOf = (table: WaitingTable): string => lookStatement(table, `${table.at} <= $5`);

const statements = {
  alert: dueOf({
    source: a.source,
    id: a.id,
    tenantId: a.tenant_id,
    applicationId: a.application_id,
    at: a.next_at,
  }),
  // To fail a lost run takes no time that somebody else chooses, so applications take no turns.
  running: dueOf({
    source: r.source,
    id: r.id,
    tenantId: r.tenant_id,
    applicationId: "'all'::text",
    at: r.deadline,
  }),
  delivery: dueOf({
    source: d.source,
    id: d.id,
    tenantId: d.tenant_id,
    applicationId: d.application_id,
    at: d.next_at,
  }),
} as const;

/** One kind of due work. Each has places of its own, so no kind waits for another. */
class Kind {
  readonly work: Work;
  readonly look: Look;
  readonly lines = new WaitingLines();
  readonly places = new DeliveryPlaces();

  constructor(work: Work, look: Look) {
    this.work = work;
    this.look = look;
  }
}

/**
 * Does work that is due by time: fails runs whose runner is gone, delivers results and security webhooks. Tenants take turns, and so do the
 * applications of each, because a receiver may not answer for long. Any number of replicas may run it. Due work is in the read model, so
 * restarts lose nothing; the stream decides whether it is really due.
 */
export function startDueWork(options: DueWorkOptions): { close(): Promise<void> } {
  return new DueWork(options);
}

class DueWork {
  readonly #options: DueWorkOptions;
  readonly #abort = new AbortController();
  readonly #locks: ReturnType<typeof createLocks>;
  readonly #kinds: readonly Kind[];
  readonly #inHand = new Map<string, Promise<void>>();
  /** The time of ending, by id. */
  readonly #ended = new Map<string, number>();
  readonly #polling: Promise<void>;
  #wake: () => void = () => undefined;

  constructor(options: DueWorkOptions) {
    const { pool, connectionString, logger, alert, failLost, deliver } = options;
    this.#options = options;
    this.#locks = createLocks(connectionString, logger);
    this.#kinds = [
      new Kind(alert, new Look(pool, statements.alert)),
      new Kind(failLost, new Look(pool, statements.running)),
      new Kind(deliver, new Look(pool, statements.delivery)),
    ];
    this.#polling = this.#pollAgainAndAgain();
  }

  async close(): Promise<void> {
    this.#abort.abort();
    await this.#polling;
    await Promise.all(this.#inHand.values());
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
    for (const [id, at] of this.#ended) if (performance.now() - at > latenessMs) this.#ended.delete(id);
    for (const kind of this.#kinds) {
      await this.#lookFor(kind);
      this.#serve(kind);
    }
  }

  /** Looks for due work of all tenants. */
  async #lookFor({ look, lines, places }: Kind): Promise<void> {
    do {
      if (look.isAtStart) lines.beginAnew();
      const found = await look.next(
        [...this.#inHand.keys(), ...this.#ended.keys()],
        [this.#options.clock.now()],
      );
      for (const [tenantId, waiting] of found) {
        lines.replace(tenantId, waiting);
        for (const [applicationId, ids] of waiting.idsOf)
          if (ids.length > 0) places.see({ tenantId, applicationId });
      }
    } while (!look.isAtStart && !this.#abort.signal.aborted);
  }

  /** Begins what finds a place: in each round one of each tenant. */
  #serve(kind: Kind): void {
    const { lines, places } = kind;
    for (let isServed = true; isServed && !this.#abort.signal.aborted;) {
      isServed = false;
      for (const tenantId of lines.tenants) {
        const next = lines.take(
          tenantId,
          (holder) => places.hasFree(holder),
          (id) => this.#inHand.has(id) || this.#ended.has(id),
        );
        if (!next) continue;
        this.#begin(kind, next);
        isServed = true;
      }
    }
  }

  #begin(kind: Kind, due: Waiting): void {
    const { tenantId, id } = due;
    const place = kind.places.take(due);
    if (!place) return;
    let isDone = false;
    const work = () => {
      isDone = true;
      return kind.work(due, AbortSignal.timeout(place.timeoutMs));
    };
    const over = this.#locks
      .hold(id, work)
      .catch((error: unknown) =>
        this.#options.logger.warn(
          { tenant_id: tenantId, ...errorFields(error) },
          'a due step of an invocation or a security webhook failed',
        ),
      )
      .finally(() => {
        this.#inHand.delete(id);
        this.#ended.set(id, performance.now());
        place.leave({ isDone });
        this.#serve(kind);
        if (kind.lines.hasRunOut(tenantId)) this.#wake();
      });
    this.#inHand.set(id, over);
  }

  #rest(ms: number): Promise<void> {
    return delay(ms, undefined, { signal: this.#abort.signal }).catch(() => undefined);
  }
}
