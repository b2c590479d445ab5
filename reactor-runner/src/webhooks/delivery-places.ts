import type { Holder } from '@token-vault/batching';
import { ApplicationPlaces } from '../turns/application-places.ts';

const placesOfTenant = 8;
const places = 64;
const timeoutMs = 15_000;
/** As many more, for a short time each. */
const briefPlacesOfTenant = 2;
const briefTimeoutMs = 3_000;
const mostRemembered = 10_000;

export interface DeliveryPlace {
  /** The time that the receiver has. */
  readonly timeoutMs: number;
  /** To be called once. `isDone`: false when another replica does the work. */
  readonly leave: (end: { readonly isDone: boolean }) => void;
}

/**
 * Places of one kind of due work. Receivers that do not answer may hold all of them for 15 s. So an application that holds none then gets
 * one of as many brief ones, which no receiver holds for long. An application whose last delivery took longer gets none of these: it waits
 * for its turn at the others, so that a slow receiver has its 15 s.
 */
export class DeliveryPlaces {
  readonly #places = new ApplicationPlaces(placesOfTenant, places);
  readonly #brief = new ApplicationPlaces(briefPlacesOfTenant, places);
  /** Applications whose last delivery took longer than a brief place is given for. */
  readonly #slow = new Set<string>();
  readonly #nowMs: () => number;

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** The application has due work. */
  see(holder: Holder): void {
    this.#places.see(holder);
  }

  hasFree(holder: Holder): boolean {
    return this.#places.hasFree(holder) || this.#mayBeBrief(holder);
  }

  take(holder: Holder): DeliveryPlace | undefined {
    const free = this.#places.take(holder);
    if (free) return this.#placeOf(holder, timeoutMs, free);
    const freeBrief = this.#mayBeBrief(holder) ? this.#brief.take(holder) : undefined;
    return freeBrief && this.#placeOf(holder, briefTimeoutMs, freeBrief);
  }

  #placeOf(holder: Holder, ms: number, free: () => void): DeliveryPlace {
    const sinceMs = this.#nowMs();
    const leave: DeliveryPlace['leave'] = ({ isDone }) => {
      free();
      if (isDone) this.#remember(holder, this.#nowMs() - sinceMs >= briefTimeoutMs);
    };
    return { timeoutMs: ms, leave };
  }

  #remember(holder: Holder, isSlow: boolean): void {
    this.#slow.delete(keyOf(holder));
    if (!isSlow) return;
    this.#slow.add(keyOf(holder));
    const [longestKnown] = this.#slow;
    if (longestKnown !== undefined && this.#slow.size > mostRemembered) this.#slow.delete(longestKnown);
  }

  #mayBeBrief(holder: Holder): boolean {
    const isHolding = this.#places.isHeldBy(holder) || this.#brief.isHeldBy(holder);
    return !isHolding && !this.#slow.has(keyOf(holder)) && this.#brief.hasFree(holder);
  }
}

const keyOf = ({ tenantId, applicationId }: Holder): string => `${tenantId} ${applicationId}`;
