import { aliased, streams } from '@token-vault/contracts';
import { TenantKeysMissingError } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import { errorFields, type Logger } from '@token-vault/observability';
import { setTimeout as delay } from 'node:timers/promises';
import type { Pool } from 'pg';
import { ApplicationPlaces } from '../turns/application-places.ts';
import { Look, lookStatement } from '../turns/look.ts';
import { WaitingLines, type Waiting } from '../turns/waiting-lines.ts';
import { holderOf, readHistory, type InvocationHistory } from './invocation.ts';
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
 * however long the backlog is. Its applications take turns at them.
 */
const placesOfTenant = 3;
/** The shortest time between two looks. */
const restMs = 50;
/**
 * The assumed delay of the read model: a run that has ended is skipped for this time. After it, reading its stream is
 * needed.
 */
const latenessMs = 5_000;
const retryMs = 1_000;

const w = aliased('invocations', 'waiting', 'w');
const r = aliased('invocations', 'running', 'r');
const statement = lookStatement(
  { source: w.source, id: w.id, tenantId: w.tenant_id, applicationId: w.application_id, at: w.invoked_at },
  `not exists (select from ${r.source} where ${r.id} = ${w.id})`,
);

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
  readonly #places = new ApplicationPlaces(placesOfTenant);
  readonly #look: Look;
  readonly #lines = new WaitingLines();
  readonly #inHand = new Map<string, Promise<void>>();
  /** The time of ending, by id: the read model may not show it yet. */
  readonly #ended = new Map<string, number>();
  readonly #looking: Promise<void>;
  #isWoken = false;
  #wake: () => void = () => undefined;

  constructor(options: BacklogOptions) {
    this.#options = options;
    this.#look = new Look(options.pool, statement);
    this.#looking = this.#lookAgainAndAgain();
  }

  async take(history: InvocationHistory): Promise<void> {
    const { invocation } = history;
    if (!invocation || this.#abort.signal.aborted) return;
    const { tenantId, id } = invocation;
    if (this.#inHand.has(id)) return;
    await (this.#begin({ ...holderOf(invocation), id }, history) ?? this.#lines.leaveBehind(tenantId));
  }

  async close(): Promise<void> {
    this.#abort.abort();
    await this.#looking;
    await Promise.all(this.#inHand.values());
  }

  /** Resolves when the invocation is claimed or over. Undefined when there is no free place. */
  #begin({ id, ...holder }: Waiting, history?: InvocationHistory): Promise<void> | undefined {
    const { tenantId } = holder;
    const leave = this.#places.take(holder);
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
    while (!this.#abort.signal.aborted) {
      const next = this.#lines.take(
        tenantId,
        (holder) => this.#places.hasFree(holder),
        (each) => this.#inHand.has(each) || this.#ended.has(each),
      );
      if (!next) break;
      void this.#begin(next);
    }
    if (!this.#lines.hasRunOut(tenantId)) return;
    this.#isWoken = true;
    this.#wake();
  }

  async #lookAgainAndAgain(): Promise<void> {
    const { logger, pollMs = 1_000 } = this.#options;
    while (!this.#abort.signal.aborted) {
      this.#isWoken = false;
      try {
        await this.#lookOnce();
      } catch (error) {
        logger.warn(errorFields(error), 'waiting invocations could not be read');
      }
      await this.#rest(restMs);
      const woken = new Promise<void>((resolve) => (this.#wake = resolve));
      if (!this.#isWoken) await Promise.race([woken, this.#rest(pollMs)]);
    }
  }

  async #lookOnce(): Promise<void> {
    for (const [id, at] of this.#ended) if (performance.now() - at > latenessMs) this.#ended.delete(id);
    const { isAtStart } = this.#look;
    const found = await this.#look.next([...this.#inHand.keys(), ...this.#ended.keys()]);
    // Invocations that a feed left to the read model meanwhile are found by the next look.
    if (isAtStart) this.#lines.beginAnew();
    for (const [tenantId, waiting] of found) {
      this.#lines.replace(tenantId, waiting);
      for (const [applicationId, ids] of waiting.idsOf)
        if (ids.length > 0) this.#places.see({ tenantId, applicationId });
      this.#advance(tenantId);
    }
  }

  #rest(ms: number): Promise<void> {
    return delay(ms, undefined, { signal: this.#abort.signal }).catch(() => undefined);
  }
}
