import { ApplicationRests } from './application-rests.ts';
import { FairQueue } from './fair-queue.ts';
import { presentTenants, type PresentTenants } from './present-tenants.ts';
import { queued } from './queued.ts';
import type { Holder } from './tenant-shares.ts';
import { setImmediate as nextTurn } from 'node:timers/promises';

/** A tenant does not pause after work that holds the thread for at most this time, including the work that follows from it. */
const freeMs = 2;
/** Work in pieces holds the thread for little longer than this at a time. */
const pieceMs = 5;
/** The share of the thread's time that a tenant gets for its long work is one divided by this number. */
const parts = 4;
/**
 * A piece that cannot be interrupted delays every request that arrives meanwhile. After a piece that takes longer than this, its application
 * rests for a hundred times the duration of the piece. So such pieces delay fewer than one in a hundred requests of others.
 */
const longMs = 15;
const partsOfLong = 100;

/** The turn of an application, in which it may hold the thread. */
export interface Turn {
  /** Whether the piece of work has held the thread for so long that the caller should call `next`. */
  readonly isOver: boolean;
  /**
   * Between two pieces of work: others work, as long as this tenant must pause after the piece before. Then its other applications have a turn.
   * @throws the reason of the signal that `begin` was given
   */
  next(): Promise<void>;
  /** Does nothing when `next` has failed. */
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
  /** An application has its turn, or the tenant pauses after one. */
  isBusy: boolean;
  /** By application. */
  readonly waiting: FairQueue<() => void>;
}

/**
 * Work that holds the thread for milliseconds, such as parsing 1 MiB of JSON, delays the requests of all tenants. Such work of one tenant is
 * done one after the other, in turns of its applications, and the tenant pauses after each: all its long work together gets a quarter of the
 * thread's time. An application whose single pieces take long gets a hundredth. Tenants do not wait for each other.
 */
export class ThreadShares {
  readonly #tenants = new Map<string, Tenant>();
  readonly #rests = new ApplicationRests({
    onEnd: (tenantId) => {
      if (this.#tenants.get(tenantId)?.isBusy === false) this.#startNext(tenantId);
    },
  });
  readonly #nowMs: () => number;

  readonly #present: Pick<PresentTenants, 'isAlone'>;

  constructor(nowMs: () => number = threadMs, present: Pick<PresentTenants, 'isAlone'> = presentTenants) {
    this.#nowMs = nowMs;
    this.#present = present;
  }

  /** Runs `work` when it is the application's turn. @throws the reason of `signal`, when it aborts before */
  async run<Result>(
    holder: Holder,
    work: () => Result,
    following?: Following,
    signal?: AbortSignal,
  ): Promise<Result> {
    const turn = await this.begin(holder, signal);
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
  async pace(holder: Holder, besideOthersMs: number, signal?: AbortSignal): Promise<void> {
    (await this.begin(holder, signal)).end({ besideOthersMs });
  }

  /**
   * For work in pieces. Resolves when it is the application's turn; the caller must end the turn. When `signal` aborts, the wait for this turn, or for
   * that of the next piece, fails with its reason.
   */
  async begin(holder: Holder, signal?: AbortSignal): Promise<Turn> {
    const { tenantId } = holder;
    await this.#enter(holder, 'push', signal);
    let hasTurn = true;
    let begunMs = this.#nowMs();
    const heldMs = () => this.#nowMs() - begunMs;
    return {
      get isOver() {
        return heldMs() > pieceMs;
      },
      next: async () => {
        hasTurn = false;
        this.#pause(tenantId, heldMs() * (parts - 1));
        await this.#enter(holder, 'pushFirst', signal);
        hasTurn = true;
        begunMs = this.#nowMs();
      },
      end: (following = {}) => {
        if (!hasTurn) return;
        const ms = heldMs();
        if (following.isOnePiece && ms > longMs) this.#rests.rest(holder, ms * partsOfLong);
        this.#pause(tenantId, this.#pauseMs(tenantId, ms, following));
      },
    };
  }

  async #enter(holder: Holder, push: 'push' | 'pushFirst', signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    const { tenantId, applicationId } = holder;
    const tenant: Tenant = this.#tenants.get(tenantId) ?? { isBusy: false, waiting: new FairQueue() };
    this.#tenants.set(tenantId, tenant);
    const { waiting } = tenant;
    if (tenant.isBusy || this.#rests.isResting(holder))
      await queued(
        {
          push: (start) => waiting[push](applicationId, start),
          remove: (start) => waiting.remove(applicationId, start),
        },
        signal,
      );
    else tenant.isBusy = true;
  }

  #pauseMs(tenantId: string, heldMs: number, following: Following): number {
    const { besideOthersMs = 0 } = following;
    const isBeside = besideOthersMs > 0 && !this.#present.isAlone(tenantId);
    return pauseMs(heldMs, following) + (isBeside ? besideOthersMs * parts : 0);
  }

  #pause(tenantId: string, ms: number): void {
    if (ms === 0) this.#startNext(tenantId);
    else setTimeout(() => this.#startNext(tenantId), ms).unref();
  }

  #startNext(tenantId: string): void {
    const tenant = this.#tenants.get(tenantId);
    if (!tenant) return;
    const start = tenant.waiting.take((applicationId) => !this.#rests.isResting({ tenantId, applicationId }));
    tenant.isBusy = start !== undefined;
    if (start) start();
    else if (tenant.waiting.size === 0) this.#tenants.delete(tenantId);
  }
}

/** The processor time of this thread: on a busy machine short work takes long, too. */
function threadMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

function pauseMs(heldMs: number, { timesAsLong = 1, ms = 0 }: Following): number {
  const allMs = heldMs * timesAsLong + ms;
  return allMs <= freeMs ? 0 : allMs * parts - heldMs;
}

/** One instance for the process, because its tenants share one thread. */
export const threadShares = new ThreadShares();
