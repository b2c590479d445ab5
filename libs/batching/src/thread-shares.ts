import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';

/** After work that held the thread for no longer than this, the tenant does not pause. */
const freeMs = 2;
/** Work in pieces holds the thread for little longer than this at a time. */
const pieceMs = 5;
/** The share of the thread's time that a tenant gets for its long work is one divided by this number. */
const parts = 4;

/** The turn of a tenant, in which it may hold the thread. */
export interface Turn {
  /** Whether the piece of work has held the thread for so long that the caller should call `next`. */
  readonly isOver: boolean;
  /** Between two pieces of work: other tenants work, as long as this tenant must pause after the piece before. */
  next(): Promise<void>;
  /** @param timesAsLong as in `run` */
  end(timesAsLong?: number): void;
}

interface Tenant {
  isBusy: boolean;
  readonly waiting: (() => void)[];
}

/**
 * Work that holds the thread for milliseconds, such as parsing 1 MiB of JSON, delays the requests of all tenants. Such work of one tenant is
 * done one after the other, and the tenant pauses after each: all its long work together gets a quarter of the thread's time. Tenants do
 * not wait for each other.
 */
export class ThreadShares {
  readonly #tenants = new Map<string, Tenant>();
  readonly #nowMs: () => number;

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /**
   * Runs `work` when it is the tenant's turn.
   * @param timesAsLong the time of the thread that the work takes together with all that follows from it, as a multiple of the time of
   * `work` itself
   */
  async run<Result>(tenantId: string, work: () => Result, timesAsLong = 1): Promise<Result> {
    const turn = await this.begin(tenantId);
    try {
      return work();
    } finally {
      turn.end(timesAsLong);
      // The work that follows takes long too: other tenants come first.
      await nextTurn();
    }
  }

  /** For work in pieces. Resolves when it is the tenant's turn; the caller must end the turn. */
  async begin(tenantId: string): Promise<Turn> {
    const tenant = this.#tenants.get(tenantId) ?? { isBusy: false, waiting: [] };
    this.#tenants.set(tenantId, tenant);
    if (tenant.isBusy) await new Promise<void>((resolve) => tenant.waiting.push(resolve));
    tenant.isBusy = true;
    let begunMs = this.#nowMs();
    const heldMs = () => this.#nowMs() - begunMs;
    return {
      get isOver() {
        return heldMs() > pieceMs;
      },
      next: async () => {
        await pause(heldMs() * (parts - 1));
        begunMs = this.#nowMs();
      },
      end: (timesAsLong = 1) => this.#pause(tenantId, tenant, { heldMs: heldMs(), timesAsLong }),
    };
  }

  #pause(
    tenantId: string,
    tenant: Tenant,
    { heldMs, timesAsLong }: { readonly heldMs: number; readonly timesAsLong: number },
  ): void {
    const goOn = () => {
      const next = tenant.waiting.shift();
      if (next) next();
      else this.#tenants.delete(tenantId);
    };
    if (heldMs <= freeMs) goOn();
    else setTimeout(goOn, heldMs * (parts * timesAsLong - 1)).unref();
  }
}

/** One instance for the process, because its tenants share one thread. */
export const threadShares = new ThreadShares();
