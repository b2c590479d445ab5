import { availableParallelism } from 'node:os';
import { TenantQueue, type Holder } from '@token-vault/batching';
import { ExpressionsBusyError } from '@token-vault/contracts';
import type { Job } from '../job.ts';
import type { Allowance, ExpressionWorkers, WorkerAnswer } from '../request.ts';
import { Thread } from './thread.ts';

export interface ExpressionWorkerOptions {
  /** Maximum number of threads; by default the number of processors, but between two and four. */
  readonly size?: number;
  /** A thread that was idle for this time ends, so that its heap keeps no data. */
  readonly idleMs?: number;
  /** How long a job may wait for a thread. */
  readonly waitMs?: number;
  /** Jobs of one tenant that may wait. Those of one application: half. */
  readonly waitingOfTenant?: number;
  /** The script of the threads. For tests. */
  readonly script?: URL;
}

interface Waiting {
  readonly tenantId: string;
  readonly start: (thread: Thread) => Promise<void>;
}

const maxWaiting = 2_000;

/** Threads that are started when needed. One tenant uses at most half of them. Tenants take turns, and the applications of a tenant do. */
class Pool implements ExpressionWorkers {
  readonly #size: number;
  readonly #idleMs: number;
  readonly #waitMs: number;
  readonly #queue: TenantQueue<Waiting>;
  readonly #busy = new Map<string, number>();
  readonly #threads = new Set<Thread>();
  readonly #free: { readonly thread: Thread; readonly timer: NodeJS.Timeout }[] = [];
  readonly #script: URL;
  #isClosed = false;

  constructor(options: ExpressionWorkerOptions) {
    this.#size = options.size ?? Math.min(4, Math.max(2, availableParallelism()));
    this.#idleMs = options.idleMs ?? 30_000;
    this.#waitMs = options.waitMs ?? 10_000;
    this.#script = options.script ?? new URL('./worker.ts', import.meta.url);
    this.#queue = new TenantQueue(options.waitingOfTenant ?? 200);
  }

  run(holder: Holder, job: Job, allowance: Allowance): Promise<WorkerAnswer> {
    if (this.#isClosed || !this.#queue.mayWait(holder) || this.#queue.size >= maxWaiting)
      return Promise.reject(tooMany());
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        if (this.#queue.remove(holder, waiting)) reject(tooMany());
      }, this.#waitMs);
      const waiting: Waiting = {
        tenantId: holder.tenantId,
        start: (thread) => {
          clearTimeout(timer);
          return thread.run(job, allowance).then(resolve, reject);
        },
      };
      this.#queue.push(holder, waiting);
      this.#place();
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const { timer } of this.#free) clearTimeout(timer);
    await Promise.all([...this.#threads].map((thread) => thread.end()));
  }

  #place(): void {
    while (!this.#isClosed && (this.#free.length > 0 || this.#threads.size < this.#size)) {
      const next = this.#queue.take((tenantId) => this.#mayRun(tenantId));
      if (next === undefined) return;
      void this.#start(next);
    }
  }

  #mayRun(tenantId: string): boolean {
    return (this.#busy.get(tenantId) ?? 0) < Math.max(1, Math.floor(this.#size / 2));
  }

  async #start({ tenantId, start }: Waiting): Promise<void> {
    const thread = this.#takeThread();
    this.#busy.set(tenantId, (this.#busy.get(tenantId) ?? 0) + 1);
    await start(thread);
    const left = (this.#busy.get(tenantId) ?? 1) - 1;
    if (left > 0) this.#busy.set(tenantId, left);
    else this.#busy.delete(tenantId);
    if (!thread.isEnding) this.#release(thread);
    this.#place();
  }

  #takeThread(): Thread {
    const last = this.#free.pop();
    clearTimeout(last?.timer);
    if (last) return last.thread;
    const thread = new Thread(this.#script, () => this.#onGone(thread));
    this.#threads.add(thread);
    return thread;
  }

  #release(thread: Thread): void {
    const timer = setTimeout(() => {
      this.#forget(thread);
      void thread.end();
    }, this.#idleMs);
    timer.unref();
    this.#free.push({ thread, timer });
  }

  /** From now on the thread gets no job. */
  #forget(thread: Thread): void {
    const index = this.#free.findIndex((it) => it.thread === thread);
    if (index >= 0) this.#free.splice(index, 1);
  }

  #onGone(thread: Thread): void {
    this.#threads.delete(thread);
    this.#forget(thread);
    this.#place();
  }
}

const tooMany = () => new ExpressionsBusyError('Too many expressions wait to be evaluated; try again.');

export function createExpressionWorkers(options: ExpressionWorkerOptions = {}): ExpressionWorkers {
  return new Pool(options);
}
