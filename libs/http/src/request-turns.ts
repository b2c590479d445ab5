import {
  FairPlaces,
  isOverAtOnce,
  presentTenants,
  TenantShares,
  type Holder,
  type PresentTenants,
} from '@token-vault/batching';
import { UnavailableError } from '@token-vault/contracts';
import type { ServerResponse } from 'node:http';
import { RequestAbortedError } from './request-life.ts';
import { inFlight, type InFlightBytes } from './in-flight.ts';

/**
 * Maximum number of requests that run at a time. With more of them, round trips are not shared better, and each request waits for all
 * others.
 */
const places = 64;
/** Places of one tenant while other tenants use few. With fewer places, requests would not share round trips. */
const placesBesideOthers = 8;
/** A request that takes longer than this waits for an unavailable part and is not counted any more. A statement is stopped after 5 s. */
const countedMs = 2_000;
const waitingOfApplication = 2_000;
const maxWaiting = 10_000;

const tooMany = () =>
  new UnavailableError('Too many requests of this tenant are waiting. Nothing was done; try again.');

export interface RequestTurnsOptions {
  /** By default those of the process. */
  readonly present?: PresentTenants;
  readonly countedMs?: number;
  /** By default those of the process. */
  readonly inFlight?: Pick<InFlightBytes, 'requireRead'>;
}

/** The turn of one request. */
export interface Turn {
  /** Resolves when the request may run. @throws UnavailableError, also when the application does not read its answers, RequestAbortedError */
  begin(holder: Holder): Promise<void>;
  /**
   * Waits without the place, which serves another request meanwhile. Then the request takes a place again, if it had one: the work that
   * follows has its turn like any other. After a wait that is over at once, the request still has its place; after an error it has none.
   * @throws UnavailableError when too many requests wait, RequestAbortedError, and any error of `wait`
   */
  outOfTurn<Result>(wait: () => Promise<Result>): Promise<Result>;
  /** From now on the request has no place. May be called more than once, and without `begin`. */
  end(): void;
}

/**
 * Requests of one tenant do not delay those of others. At most 64 requests run at a time; the next ones are taken in turns of the tenants, and
 * for each tenant in turns of its applications. While other tenants are present, a tenant has no more places than they have together, or eight.
 * So the work of another tenant is at most doubled, however many connections a tenant has. A request that waits for other requests holds no
 * place: reactor code does not use these turns, and a request that waits for its outcome has returned its place (RequestContext.waitsForOthers).
 */
export class RequestTurns {
  readonly #places: FairPlaces;
  /** The requests that wait out of their turn: each costs memory. One application may have half of the share. */
  readonly #outside = new TenantShares(2 * waitingOfApplication);
  #outsideCount = 0;
  readonly #present: PresentTenants;
  readonly #countedMs: number;
  readonly #inFlight: Pick<InFlightBytes, 'requireRead'>;

  constructor(options: RequestTurnsOptions = {}) {
    this.#present = options.present ?? presentTenants;
    this.#countedMs = options.countedMs ?? countedMs;
    this.#inFlight = options.inFlight ?? inFlight;
    const placesOf = (tenantId: string) => this.#placesOf(tenantId);
    this.#places = new FairPlaces({
      places,
      placesOf,
      waitingOfTenant: waitingOfApplication,
      maxWaiting,
      refuse: tooMany,
    });
  }

  /** The number of waiting requests. */
  get waiting(): number {
    return this.#places.waiting;
  }

  of(response: ServerResponse): Turn {
    let isEnded = false;
    let of: Holder | undefined;
    /** Whether there was a place to leave. */
    let leave = (): boolean => false;
    const begin = async (holder: Holder): Promise<void> => {
      of = holder;
      leave = await this.#enter(holder, response);
      if (isEnded) leave();
      try {
        this.#inFlight.requireRead(holder);
      } catch (error) {
        leave();
        throw error;
      }
    };
    return {
      begin,
      outOfTurn: async (wait) => {
        if (!of) return wait();
        const waiting = this.#outsideOf(of, wait);
        // The request keeps its place, so that it does not queue twice.
        if (await isOverAtOnce(waiting)) return waiting;
        const hadPlace = leave();
        const result = await waiting;
        if (hadPlace) await begin(of);
        return result;
      },
      end() {
        isEnded = true;
        leave();
      },
    };
  }

  async #outsideOf<Result>(holder: Holder, wait: () => Promise<Result>): Promise<Result> {
    if (this.#outsideCount >= maxWaiting || !this.#outside.allows(holder)) throw tooMany();
    this.#outside.take(holder);
    this.#outsideCount += 1;
    try {
      return await wait();
    } finally {
      this.#outside.giveBack(holder);
      this.#outsideCount -= 1;
    }
  }

  /** Gives the function that leaves the place. */
  async #enter({ tenantId, applicationId }: Holder, response: ServerResponse): Promise<() => boolean> {
    this.#present.see(tenantId);
    const waiting = this.#places.enter(tenantId, applicationId);
    if (waiting) {
      const giveUp = () => waiting.giveUp(new RequestAbortedError('the client disconnected'));
      response.once('close', giveUp);
      // The client may have gone before, while the request waited out of its turn.
      if (response.closed) giveUp();
      await waiting.begun.finally(() => response.off('close', giveUp));
    }
    let hasPlace = true;
    const leave = (): boolean => {
      if (!hasPlace) return false;
      hasPlace = false;
      clearTimeout(timer);
      this.#present.see(tenantId);
      this.#places.leave(tenantId, applicationId);
      return true;
    };
    const timer = setTimeout(leave, this.#countedMs);
    return leave;
  }

  /** Whether no other tenant has, wants or just had places. */
  isAlone(tenantId: string): boolean {
    return this.#places.wantedByOthers(tenantId) === 0 && this.#present.isAlone(tenantId);
  }

  #placesOf(tenantId: string): number {
    if (this.isAlone(tenantId)) return places;
    return Math.max(placesBesideOthers, this.#places.wantedByOthers(tenantId));
  }
}

/** One instance for the process, because its requests share one thread. */
export const requestTurns = new RequestTurns();
