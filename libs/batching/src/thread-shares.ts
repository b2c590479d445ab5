import { presentTenants, type PresentTenants } from './present-tenants.ts';
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';

/** A tenant does not pause after work that holds the thread for at most this time, including the work that follows from it. */
const freeMs = 2;
/** Work in pieces holds the thread for little longer than this at a time. */
const pieceMs = 5;
/** The share of the thread's time that a tenant gets for its long work is one divided by this number. */
const parts = 4;
/**
 * A piece that cannot be interrupted delays every request that arrives meanwhile. After a piece that takes longer than this, the tenant pauses
 * for a hundred times the duration of the piece. So such pieces delay fewer than one in a hundred requests of other tenants.
 */
const longMs = 15;
const partsOfLong = 100;

/** The turn of a tenant, in which it may hold the thread. */
export interface Turn {
  /** Whether the piece of work has held the thread for so long that the caller should call `next`. */
  readonly isOver: boolean;
  /** Between two pieces of work: other tenants work, as long as this tenant must pause after the piece before. */
  next(): Promise<void>;
  end(following?: Following): void;
}

/** The work that follows from a piece of long work, and that holds the thread elsewhere. The tenant pauses for it as well. */
export interface Following {
  /** The time of the piece together with all that follows from it, as a multiple of the time of the piece itself. */
  readonly timesAsLong?: number;
  /** The time of the work that follows, when it does not depend on the time of the piece. */
  readonly ms?: number;
  /**
   * The processor time of the work that follows in other turns of the thread, in Postgres and in other processes. While other tenants are present,
   * the tenant pauses for it as well.
   */
  readonly besideOthersMs?: number;
  /** The piece was not interrupted, so the thread did nothing else meanwhile. */
  readonly isOnePiece?: true;
}

interface Tenant {
  isBusy: boolean;
  readonly waiting: (() => void)[];
}

/**
 * Work that holds the thread for milliseconds, such as parsing 1 MiB of JSON, delays the requests of all tenants. Such work of one tenant is
 * done one after the other, and the tenant pauses after each: all its long work together gets a quarter of the thread's time, or a
 * hundredth where a single piece takes long. Tenants do not wait for each other.
 */
export class ThreadShares {
  readonly #tenants = new Map<string, Tenant>();
  readonly #nowMs: () => number;

  readonly #present: Pick<PresentTenants, 'isAlone'>;

  constructor(nowMs: () => number = threadMs, present: Pick<PresentTenants, 'isAlone'> = presentTenants) {
    this.#nowMs = nowMs;
    this.#present = present;
  }

  /** Runs `work` when it is the tenant's turn. */
  async run<Result>(tenantId: string, work: () => Result, following?: Following): Promise<Result> {
    const turn = await this.begin(tenantId);
    try {
      return work();
    } finally {
      turn.end({ ...following, isOnePiece: true });
      // The work that follows takes long too: other tenants come first.
      await nextTurn();
    }
  }

  /**
   * For work that is short, but may come often, such as the requests of code. A tenant alone does not wait. Beside others, the tenant's next such work
   * waits until a quarter of a processor is enough for what follows from this one.
   */
  async pace(tenantId: string, besideOthersMs: number): Promise<void> {
    (await this.begin(tenantId)).end({ besideOthersMs });
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
      end: (following = {}) => this.#end(tenantId, tenant, this.#pauseMs(tenantId, heldMs(), following)),
    };
  }

  #pauseMs(tenantId: string, heldMs: number, following: Following): number {
    const { besideOthersMs = 0 } = following;
    const isBeside = besideOthersMs > 0 && !this.#present.isAlone(tenantId);
    return pauseMs(heldMs, following) + (isBeside ? besideOthersMs * parts : 0);
  }

  #end(tenantId: string, tenant: Tenant, pauseMs: number): void {
    const goOn = () => {
      const next = tenant.waiting.shift();
      if (next) next();
      else this.#tenants.delete(tenantId);
    };
    if (pauseMs === 0) goOn();
    else setTimeout(goOn, pauseMs).unref();
  }
}

/** The processor time of this thread: on a busy machine short work takes long, too. */
function threadMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

function pauseMs(heldMs: number, { timesAsLong = 1, ms = 0, isOnePiece }: Following): number {
  if (isOnePiece && heldMs > longMs) return heldMs * partsOfLong;
  const allMs = heldMs * timesAsLong + ms;
  return allMs <= freeMs ? 0 : allMs * parts - heldMs;
}

/** One instance for the process, because its tenants share one thread. */
export const threadShares = new ThreadShares();
