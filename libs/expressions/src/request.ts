import type { Holder } from '@token-vault/batching';
import { ExpressionEvaluationError, ExpressionSyntaxError } from './errors.ts';
import type { Bindings } from './evaluation.ts';
import { failed, runJob, type Job, type JobFailure, type JobOutcome } from './job.ts';
import type { Json } from './json.ts';
import { limits } from './limits.ts';
import { NeedsWorkerError, StepMeter, tooSlow } from './meter.ts';
import { OutputBudget } from './output-budget.ts';

/** The limits of one job in a worker. */
export interface Allowance {
  readonly ms: number;
  readonly memory: number;
  readonly output: number;
}

export interface WorkerAnswer {
  readonly outcome: JobOutcome;
  readonly used: Allowance;
}

/** Threads that evaluate expressions that are not simple. Tenants take turns, and the applications of a tenant do. */
export interface ExpressionWorkers {
  /** @throws UnavailableError when too many jobs wait. A job that exceeds its allowance, or breaks its thread, gives an outcome instead. */
  run(holder: Holder, job: Job, allowance: Allowance): Promise<WorkerAnswer>;
  close(): Promise<void>;
}

/** Used inside this library: names the failed expression of a job. */
export class JobFailedError extends Error {
  override readonly name = 'JobFailedError';
  readonly failures: readonly JobFailure[];

  constructor(failures: readonly JobFailure[]) {
    super('expressions failed');
    this.failures = failures;
  }
}

/** The error that is shown for a failure. */
export function toExpressionError({ kind, message, position }: JobFailure, field?: string): Error {
  return kind === 'syntax'
    ? new ExpressionSyntaxError(message, position, field)
    : new ExpressionEvaluationError(message, field);
}

/**
 * The expressions of one request, with one common limit of time and memory. Simple expressions are evaluated at once and returned without a
 * promise; the others one after the other in a worker.
 */
export class RequestExpressions {
  readonly #holder: Holder;
  readonly #workers: ExpressionWorkers;
  #threadSteps: number = limits.threadStepsOfRequest;
  #ms: number = limits.requestMs;
  #memory: number = limits.memoryOfRequest;
  #output: number = limits.outputOfRequest;
  #last: Promise<unknown> = Promise.resolve();

  constructor(holder: Holder, workers: ExpressionWorkers) {
    this.#holder = holder;
    this.#workers = workers;
  }

  /** The values of the expressions, in order. @throws {JobFailedError} @throws UnavailableError */
  evaluate(sources: readonly string[], bindings: Bindings): readonly Json[] | Promise<readonly Json[]> {
    const job = { sources, bindings };
    const outcome = this.#onThisThread(job);
    return outcome === undefined ? this.#inWorker(job).then(valuesOf) : valuesOf(outcome);
  }

  /** Undefined when the job is too large for the thread that serves requests. */
  #onThisThread(job: Job): JobOutcome | undefined {
    const meter = new StepMeter(Math.min(limits.threadSteps, this.#threadSteps));
    const outputBudget = new OutputBudget(Math.min(limits.output, this.#output));
    try {
      const outcome = runJob(job, meter, outputBudget);
      this.#output -= outputBudget.used;
      return outcome;
    } catch (error) {
      if (error instanceof NeedsWorkerError) return undefined;
      throw error;
    } finally {
      this.#threadSteps -= inUnits(meter.used, limits.threadStepsUnit);
    }
  }

  #inWorker(job: Job): Promise<JobOutcome> {
    const outcome = this.#last.then(() => this.#send(job));
    this.#last = outcome.catch(() => undefined);
    return outcome;
  }

  async #send(job: Job): Promise<JobOutcome> {
    const allowance = {
      ms: Math.min(limits.jobMs, this.#ms),
      memory: Math.min(limits.memory, this.#memory),
      output: Math.min(limits.output, this.#output),
    };
    if (allowance.ms <= 0 || allowance.memory <= 0 || allowance.output <= 0) return failed(tooSlow);
    const { outcome, used } = await this.#workers.run(this.#holder, job, allowance);
    this.#ms -= used.ms;
    this.#memory -= inUnits(used.memory, limits.memoryUnit);
    this.#output -= used.output;
    return outcome;
  }
}

const inUnits = (used: number, unit: number): number => Math.ceil(used / unit) * unit;

function valuesOf(outcome: JobOutcome): readonly Json[] {
  if (outcome.kind === 'values') return outcome.values;
  throw new JobFailedError(outcome.failures);
}

/** The expressions of requests; see {@link RequestExpressions}. */
export interface Expressions {
  /** The expressions of a request; the same object at each call. @param request an object that lives as long as the request */
  of(request: object, holder: Holder): RequestExpressions;
}

export function createExpressions(workers: ExpressionWorkers): Expressions {
  const known = new WeakMap<object, RequestExpressions>();
  return {
    of(request, holder) {
      let expressions = known.get(request);
      if (expressions === undefined)
        known.set(request, (expressions = new RequestExpressions(holder, workers)));
      return expressions;
    },
  };
}
