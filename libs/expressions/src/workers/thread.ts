import { Worker } from 'node:worker_threads';
import { ExpressionsBusyError } from '@token-vault/contracts';
import { tooLarge, tooSlow } from '../meter.ts';
import { failed, type Job } from '../job.ts';
import type { Allowance, WorkerAnswer } from '../request.ts';
import type { AnswerMessage, JobMessage } from './worker.ts';

/**
 * The heap of a worker. The limit of the engine's allocations is far below (limits.ts). If a job still reaches the heap limit, V8 ends the
 * thread; that works only when no single step allocates more than the remaining heap.
 */
const heapMb = 128;
/** The processor time after which the thread of a job is terminated: the allowance of the job, and a reserve. */
const endMs = (ms: number): number => 1_000 + 2 * ms;
/** The longest time of a job on a machine that is too busy to give it its processor time. */
const longestMs = 30_000;

interface UnderWay {
  readonly allowance: Allowance;
  readonly done: PromiseWithResolvers<WorkerAnswer>;
  readonly began: number;
}

/** A worker thread that runs one job at a time. It keeps the process alive only while it runs a job. */
export class Thread {
  readonly #worker: Worker;
  readonly #gone = Promise.withResolvers<void>();
  #underWay: UnderWay | undefined;
  /** The processor time of the thread at the end of its last job. */
  #threadMs = 0;
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
    this.#worker.on('message', ({ answer, threadMs }: AnswerMessage) => {
      this.#threadMs = threadMs;
      this.#finish()?.resolve(answer);
    });
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
   * @throws ExpressionsBusyError when the thread ended for another reason, or got no processor
   */
  run(job: Job, allowance: Allowance): Promise<WorkerAnswer> {
    const done = Promise.withResolvers<WorkerAnswer>();
    const underWay = { allowance, done, began: performance.now() };
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
    this.#lookAfter(endMs(allowance.ms), underWay);
    return done.promise;
  }

  end(): Promise<void> {
    this.#isEnding = true;
    void this.#worker.terminate();
    return this.#gone.promise;
  }

  #lookAfter(ms: number, underWay: UnderWay): void {
    this.#timer = setTimeout(() => void this.#look(underWay), ms);
  }

  /** Ends the thread when the job has used too much processor time. A busy machine alone fails no job. */
  async #look(underWay: UnderWay): Promise<void> {
    const used = await this.#worker.cpuUsage().catch(() => undefined);
    // The answer may have come meanwhile, or the thread may have ended.
    if (this.#underWay !== underWay || used === undefined) return;
    const left = endMs(underWay.allowance.ms) - ((used.user + used.system) / 1_000 - this.#threadMs);
    if (left > 0 && performance.now() - underWay.began < longestMs) {
      this.#lookAfter(left, underWay);
      return;
    }
    if (left <= 0) this.#reason = tooSlow;
    void this.end();
  }

  #fail(): void {
    const reason = this.#reason;
    const allowance = this.#underWay?.allowance;
    const done = this.#finish();
    if (done === undefined || allowance === undefined) return;
    if (reason === undefined)
      done.reject(new ExpressionsBusyError('Expressions cannot be evaluated now; try again.'));
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
