import type { Holder } from './tenant-shares.ts';

export interface ApplicationRestsOptions {
  /** Called after each rest. */
  readonly onEnd: (tenantId: string) => void;
  /** No rest ends later than this from now on. */
  readonly longestMs?: number;
  /** Monotonic milliseconds. */
  readonly nowMs?: () => number;
}

interface Rest {
  readonly endMs: number;
  readonly timer: NodeJS.Timeout;
}

/** While so many applications of a tenant rest, the others wait, too: else a tenant with a thousand applications could do a thousand pieces of costly work at once. */
const mostResting = 8;

/**
 * An application rests after costly work, and the others of its tenant go on. Beside one that rests, a rest is twice as long, beside two three
 * times. So in the long run all applications of a tenant, however many there are, do no more costly work than one.
 */
export class ApplicationRests {
  readonly #options: ApplicationRestsOptions;
  readonly #nowMs: () => number;
  readonly #tenants = new Map<string, Map<string, Rest>>();

  constructor(options: ApplicationRestsOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? (() => performance.now());
  }

  /** Whether the application must wait for its own rest, or for those of many others. */
  isResting({ tenantId, applicationId }: Holder): boolean {
    const rests = this.#tenants.get(tenantId);
    return rests !== undefined && (rests.size >= mostResting || rests.has(applicationId));
  }

  /** The application rests at least for so long from now on. */
  rest(holder: Holder, ms: number): void {
    const restMs = ms * this.#timesAsLong(holder);
    if (restMs > this.#leftMs(holder)) this.#restFor(holder, restMs);
  }

  /** The application rests for so much longer than it does. */
  extend(holder: Holder, ms: number): void {
    this.#restFor(holder, this.#leftMs(holder) + ms * this.#timesAsLong(holder));
  }

  #leftMs({ tenantId, applicationId }: Holder): number {
    const rest = this.#tenants.get(tenantId)?.get(applicationId);
    return rest === undefined ? 0 : rest.endMs - this.#nowMs();
  }

  #timesAsLong({ tenantId, applicationId }: Holder): number {
    const rests = this.#tenants.get(tenantId);
    return rests === undefined ? 1 : rests.size + (rests.has(applicationId) ? 0 : 1);
  }

  #restFor({ tenantId, applicationId }: Holder, askedMs: number): void {
    const { longestMs = Infinity, onEnd } = this.#options;
    const rests = this.#tenants.get(tenantId) ?? new Map<string, Rest>();
    this.#tenants.set(tenantId, rests);
    clearTimeout(rests.get(applicationId)?.timer);
    const ms = Math.min(askedMs, longestMs);
    const end = () => {
      rests.delete(applicationId);
      if (rests.size === 0) this.#tenants.delete(tenantId);
      onEnd(tenantId);
    };
    rests.set(applicationId, { endMs: this.#nowMs() + ms, timer: setTimeout(end, ms).unref() });
  }
}
