import { FairPlaces, presentTenants, type PresentTenants } from '@token-vault/batching';
import { UnavailableError } from '@token-vault/contracts';
import type { ServerResponse } from 'node:http';
import { RequestAbortedError } from './body.ts';

/**
 * Maximum number of requests that run at a time. With more of them, round trips are not shared better, and each request waits for all
 * others.
 */
const places = 64;
/** Places of one tenant while other tenants use few. With fewer places, requests would not share round trips. */
const placesBesideOthers = 8;
/** A request that takes longer than this waits for an unavailable part and is not counted any more. A statement is stopped after 5 s. */
const countedMs = 2_000;
const waitingOfTenant = 2_000;
const maxWaiting = 10_000;

const tooMany = () =>
  new UnavailableError('Too many requests of this tenant are waiting. Nothing was done; try again.');

export interface RequestTurnsOptions {
  /** By default those of the process. */
  readonly present?: PresentTenants;
  readonly countedMs?: number;
}

/** The turn of one request. */
export interface Turn {
  /** Resolves when the request may run. @throws UnavailableError, RequestAbortedError */
  begin(tenantId: string): Promise<void>;
  /** May be called more than once, and without `begin`. */
  end(): void;
}

/**
 * Requests of one tenant do not delay those of others. At most 64 requests run at a time; the next ones are taken in turns of the tenants.
 * While other tenants are present, a tenant has no more places than they have together, or eight. So the work of another tenant is at most
 * doubled, however many connections a tenant has. A request that waits for other requests holds no place: reactor code does not use these
 * turns, and a request that waits for its outcome has returned its place (RequestContext.waitsForOthers).
 */
export class RequestTurns {
  readonly #places: FairPlaces;
  readonly #present: PresentTenants;
  readonly #countedMs: number;

  constructor(options: RequestTurnsOptions = {}) {
    this.#present = options.present ?? presentTenants;
    this.#countedMs = options.countedMs ?? countedMs;
    const placesOf = (tenantId: string) => this.#placesOf(tenantId);
    this.#places = new FairPlaces({ places, placesOf, waitingOfTenant, maxWaiting, refuse: tooMany });
  }

  /** The number of waiting requests. */
  get waiting(): number {
    return this.#places.waiting;
  }

  of(response: ServerResponse): Turn {
    let leave = (): void => undefined;
    return {
      begin: async (tenantId) => {
        this.#present.see(tenantId);
        const waiting = this.#places.enter(tenantId);
        if (waiting) {
          const giveUp = () => waiting.giveUp(new RequestAbortedError('the client disconnected'));
          response.once('close', giveUp);
          await waiting.begun.finally(() => response.off('close', giveUp));
        }
        leave = () => {
          clearTimeout(timer);
          leave = () => undefined;
          this.#present.see(tenantId);
          this.#places.leave(tenantId);
        };
        const timer = setTimeout(() => leave(), this.#countedMs);
      },
      end: () => leave(),
    };
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
