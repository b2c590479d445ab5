import { Worker } from 'node:worker_threads';
import { UnavailableError } from '@token-vault/contracts';
import { tooLarge, tooSlow } from '../meter.ts';
import { failed, type Job } from '../job.ts';
import type { Allowance, WorkerAnswer } from '../request.ts';
import type { JobMessage } from './worker.ts';

/**
 * The heap of a worker. What the engine may allocate is bounded far below (limits.ts); should a job reach this all the same, V8 ends
 * the thread, for which it needs that no single step allocates more than it has left.
 */
const heapMb = 128;
/** Wall time that a job may take, for its processor time and besides, until its thread is ended from outside. */
const wallMs = (ms: number): number => 1_000 + 4 * ms;

/** A worker thread, which runs one job at a time. It keeps the process alive only while it does. */
export class Thread {
  readonly #worker: Worker;
  readonly #gone = Promise.withResolvers<void>();
  #underWay: { readonly allowance: Allowance; readonly done: PromiseWithResolvers<WorkerAnswer> } | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** What the job under way did that ended the thread; undefined when that was not its doing. */
  #reason: string | undefined;
  #isEnding = false;

  /** @param onGone when it has ended, by whatever cause; what it ran has then been answered */
  constructor(script: URL, onGone: () => void) {
    this.#worker = new Worker(script, {
      name: 'expressions',
      env: {},
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: heapMb },
    });
    this.#worker.unref();
    this.#worker.on('message', (answer: WorkerAnswer) => this.#finish()?.resolve(answer));
    this.#worker.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ERR_WORKER_OUT_OF_MEMORY') this.#reason = tooLarge;
    });
    this.#worker.on('exit', () => {
      this.#isEnding = true;
      this.#fail();
      onGone();
      this.#gone.resolve();
    });
  }

  get isEnding(): boolean {
    return this.#isEnding;
  }

  /**
   * What overruns its allowance, or breaks the thread, has failed and used all that it was given.
   * @throws UnavailableError when the thread ended for another reason
   */
  run(job: Job, allowance: Allowance): Promise<WorkerAnswer> {
    const done = Promise.withResolvers<WorkerAnswer>();
    const underWay = { allowance, done };
    this.#underWay = underWay;
    try {
      this.#worker.postMessage({ job, allowance } satisfies JobMessage);
    } catch {
      // Data of a depth that cannot be cloned.
      this.#finish();
      const outcome = failed('The expression cannot be evaluated over this data.');
      return Promise.resolve({ outcome, used: allowance });
    }
    this.#worker.ref();
    this.#timer = setTimeout(() => {
      // An answer that has arrived meanwhile comes first, should the main thread have been late itself.
      setImmediate(() => this.#underWay === underWay && this.#overrun());
    }, wallMs(allowance.ms));
    return done.promise;
  }

  end(): Promise<void> {
    this.#isEnding = true;
    void this.#worker.terminate();
    return this.#gone.promise;
  }

  #overrun(): void {
    this.#reason = tooSlow;
    void this.end();
  }

  #fail(): void {
    const reason = this.#reason;
    const allowance = this.#underWay?.allowance;
    const done = this.#finish();
    if (done === undefined || allowance === undefined) return;
    if (reason === undefined)
      done.reject(new UnavailableError('Expressions cannot be evaluated now; try again.'));
    else done.resolve({ outcome: failed(reason), used: allowance });
  }

  #finish(): PromiseWithResolvers<WorkerAnswer> | undefined {
    const done = this.#underWay?.done;
    clearTimeout(this.#timer);
    this.#underWay = undefined;
    this.#worker.unref();
    return done;
  }
}
