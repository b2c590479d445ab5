import { TenantQueue } from './tenant-queue.ts';
import type { Holder } from './tenant-shares.ts';

export interface FairPlacesOptions {
  /** Number of places for all tenants together. */
  readonly places: number;
  /** Number of places that this tenant may have now. Called again whenever a place becomes free, and by `startWaiting`. */
  readonly placesOf: (tenantId: string) => number;
  /** Number of these places that this application may have now. By default all. */
  readonly placesOfApplication?: (holder: Holder) => number;
  /**
   * Maximum number of waiting callers of one tenant, and of all tenants. Of one application, where callers name theirs: those of the tenant are
   * fewer than twice as many then, so that the others find room.
   */
  readonly waitingOfTenant: number;
  readonly maxWaiting: number;
  /** The error when more callers want to wait. */
  readonly refuse: () => Error;
}

export interface WaitingForPlace {
  /** Resolves when the caller has its place; rejects when the caller gives up before. */
  readonly begun: Promise<void>;
  /** As `begun`, but the caller gives up after this time, if any, with the error of `refuse`, and when `signal` aborts, with its reason. */
  begunWithin(ms: number | undefined, signal?: AbortSignal): Promise<void>;
  /** Does nothing once the caller has its place. */
  giveUp(error: Error): void;
}

/** A limited number of places, which tenants take in turns, and applications in the turns of their tenant. A caller that takes a place returns it by `leave`. */
export class FairPlaces {
  readonly #options: FairPlacesOptions;
  /** Each item begins the work of a caller. */
  readonly #waiting: TenantQueue<() => void>;
  readonly #taken = new Map<string, Map<string, number>>();
  #total = 0;

  constructor(options: FairPlacesOptions) {
    this.#options = options;
    // One application may fill half of the queue.
    this.#waiting = new TenantQueue(2 * options.waitingOfTenant);
  }

  /** The number of waiting callers. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** The number of places that other tenants have or wait for. */
  wantedByOthers(tenantId: string): number {
    return this.#total + this.#waiting.size - this.#takenBy(tenantId) - this.#waiting.sizeOf(tenantId);
  }

  /** Undefined when the caller gets a place at once. @throws the error of `refuse` when too many callers wait */
  enter(tenantId: string, applicationId = ''): WaitingForPlace | undefined {
    const { places, maxWaiting, refuse } = this.#options;
    const holder = { tenantId, applicationId };
    if (this.#waiting.sizeOf(tenantId) === 0 && this.#total < places && this.#mayTake(holder)) {
      this.#take(holder);
      return undefined;
    }
    if (!this.#waiting.mayWait(holder) || this.#waiting.size >= maxWaiting) throw refuse();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const start = () => {
      this.#take(holder);
      resolve();
    };
    this.#waiting.push(holder, start);
    this.startWaiting();
    const giveUp = (error: Error): void => {
      if (this.#waiting.remove(holder, start)) reject(error);
    };
    return {
      begun: promise,
      giveUp,
      begunWithin: (ms, signal) => {
        const timer = ms === undefined ? undefined : setTimeout(() => giveUp(refuse()), ms);
        const abort = () => giveUp(signal?.reason as Error);
        signal?.addEventListener('abort', abort);
        if (signal?.aborted === true) abort();
        return promise.finally(() => {
          clearTimeout(timer);
          signal?.removeEventListener('abort', abort);
        });
      },
    };
  }

  leave(tenantId: string, applicationId = ''): void {
    const taken = this.#taken.get(tenantId);
    const left = (taken?.get(applicationId) ?? 0) - 1;
    if (left > 0) taken?.set(applicationId, left);
    else taken?.delete(applicationId);
    if (taken?.size === 0) this.#taken.delete(tenantId);
    this.#total -= 1;
    this.startWaiting();
  }

  /** Starts callers that now may have a place. Call it when the options may give more places than before. */
  startWaiting(): void {
    while (this.#total < this.#options.places) {
      const start = this.#waiting.take(
        (tenantId) => this.#takenBy(tenantId) < this.#options.placesOf(tenantId),
        (_start, holder) => this.#mayTake(holder),
      );
      if (!start) return;
      start();
    }
  }

  #takenBy(tenantId: string): number {
    let sum = 0;
    for (const places of this.#taken.get(tenantId)?.values() ?? []) sum += places;
    return sum;
  }

  #mayTake(holder: Holder): boolean {
    const { placesOf, placesOfApplication = () => Infinity } = this.#options;
    const own = this.#taken.get(holder.tenantId)?.get(holder.applicationId) ?? 0;
    return this.#takenBy(holder.tenantId) < placesOf(holder.tenantId) && own < placesOfApplication(holder);
  }

  #take({ tenantId, applicationId }: Holder): void {
    const taken = this.#taken.get(tenantId) ?? new Map<string, number>();
    this.#taken.set(tenantId, taken.set(applicationId, (taken.get(applicationId) ?? 0) + 1));
    this.#total += 1;
  }
}
