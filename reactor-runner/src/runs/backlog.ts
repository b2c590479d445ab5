import { streams } from '@token-vault/contracts';
import { TenantKeysMissingError } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import { errorFields, type Logger } from '@token-vault/observability';
import { setTimeout as delay } from 'node:timers/promises';
import type { Pool } from 'pg';
import type { Holder } from '@token-vault/batching';
import { BacklogLook, type WaitingOfTenant } from './backlog-look.ts';
import { ApplicationPlaces } from './application-places.ts';
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

/**
 * Runs asynchronous invocations, a few of each tenant at once. The waiting ones are in the read model, neither in
 * memory nor in a feed: a tenant may have a million. Any number of replicas may run this; the runner that claims an
 * invocation in the log runs it.
 */
export function startBacklog(options: BacklogOptions): Backlog {
  return new Follower(options);
}

interface Waiting extends Holder {
  readonly id: string;
}

class Follower implements Backlog {
  readonly #options: BacklogOptions;
  readonly #abort = new AbortController();
  readonly #places = new ApplicationPlaces(placesOfTenant);
  readonly #look: BacklogLook;
  readonly #inHand = new Map<string, Promise<void>>();
  /** Ids that were read and wait for a place, by tenant and application. The application whose turn it is comes first. */
  readonly #lines = new Map<string, Map<string, string[]>>();
  /** The time of ending, by id: the read model may not show it yet. */
  readonly #ended = new Map<string, number>();
  /** Tenants that may have more invocations in the read model than in their line. */
  readonly #behind = new Set<string>();
  readonly #looking: Promise<void>;
  #isWoken = false;
  #wake: () => void = () => undefined;

  constructor(options: BacklogOptions) {
    this.#options = options;
    this.#look = new BacklogLook(options.pool);
    this.#looking = this.#lookAgainAndAgain();
  }

  async take(history: InvocationHistory): Promise<void> {
    const { invocation } = history;
    if (!invocation || this.#abort.signal.aborted) return;
    const { tenantId, id } = invocation;
    if (this.#inHand.has(id)) return;
    await (this.#begin({ ...holderOf(invocation), id }, history) ?? this.#behind.add(tenantId));
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
    const line = this.#lines.get(tenantId) ?? new Map<string, string[]>();
    while (!this.#abort.signal.aborted) {
      const next = [...line].find(([each]) => this.#places.hasFree({ tenantId, applicationId: each }));
      if (!next) break;
      const [applicationId, ids] = next;
      const id = ids.find((each) => !this.#inHand.has(each) && !this.#ended.has(each));
      line.delete(applicationId);
      if (id === undefined) continue;
      ids.splice(0, ids.indexOf(id) + 1);
      // Its next turn comes after those of the others.
      line.set(applicationId, ids);
      void this.#begin({ tenantId, applicationId, id });
    }
    const hasRunOut = [...line.values()].some((ids) => ids.length === 0);
    if (line.size === 0) this.#lines.delete(tenantId);
    if (!this.#behind.has(tenantId) || !(hasRunOut || line.size === 0)) return;
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
    if (isAtStart) this.#behind.clear();
    for (const [tenantId, waiting] of found) {
      if (waiting.hasMore) this.#behind.add(tenantId);
      this.#replaceLine(tenantId, waiting);
      this.#advance(tenantId);
    }
  }

  /** Applications keep their turns. New ones come last. */
  #replaceLine(tenantId: string, { idsOf }: WaitingOfTenant): void {
    const before = this.#lines.get(tenantId)?.keys() ?? [];
    const line = new Map<string, string[]>();
    for (const applicationId of [...before, ...idsOf.keys()]) {
      const ids = idsOf.get(applicationId) ?? [];
      if (ids.length > 0) line.set(applicationId, ids);
      if (ids.length > 0) this.#places.see({ tenantId, applicationId });
    }
    this.#lines.set(tenantId, line);
  }

  #rest(ms: number): Promise<void> {
    return delay(ms, undefined, { signal: this.#abort.signal }).catch(() => undefined);
  }
}
