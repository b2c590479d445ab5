import { Worker } from 'node:worker_threads';
import { UnavailableError } from '@token-vault/contracts';
import { tooLarge, tooSlow } from '../meter.ts';
import { failed, type Job } from '../job.ts';
import type { Allowance, WorkerAnswer } from '../request.ts';
import type { JobMessage } from './worker.ts';

/**
 * The heap of a worker. The limit of the engine's allocations is far below (limits.ts). If a job still reaches the heap limit, V8 ends the
 * thread; that works only when no single step allocates more than the remaining heap.
 */
const heapMb = 128;
/** The wall time after which the thread of a job is terminated: its processor time and a reserve. */
const wallMs = (ms: number): number => 1_000 + 4 * ms;

/** A worker thread that runs one job at a time. It keeps the process alive only while it runs a job. */
export class Thread {
  readonly #worker: Worker;
  readonly #gone = Promise.withResolvers<void>();
  #underWay: { readonly allowance: Allowance; readonly done: PromiseWithResolvers<WorkerAnswer> } | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** The reason why the current job ended the thread; undefined when the job was not the cause. */
  #reason: string | undefined;
  #isEnding = false;

  /** @param onGone called when the thread has ended, for any reason; its job has then been answered */
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
   * A job that exceeds its allowance, or breaks the thread, has failed and counts as having used its whole allowance.
   * @throws UnavailableError when the thread ended for another reason
   */
  run(job: Job, allowance: Allowance): Promise<WorkerAnswer> {
    const done = Promise.withResolvers<WorkerAnswer>();
    const underWay = { allowance, done };
    this.#underWay = underWay;
    try {
      this.#worker.postMessage({ job, allowance } satisfies JobMessage);
    } catch {
      // The data is nested too deeply to be cloned.
      this.#finish();
      const outcome = failed('The expression cannot be evaluated over this data.');
      return Promise.resolve({ outcome, used: allowance });
    }
    this.#worker.ref();
    this.#timer = setTimeout(() => {
      // If the main thread itself was late, an answer that has arrived meanwhile comes first.
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
