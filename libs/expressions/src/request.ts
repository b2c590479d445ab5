import { ExpressionEvaluationError, ExpressionSyntaxError } from './errors.ts';
import type { Bindings } from './evaluation.ts';
import { failed, runJob, type Job, type JobFailure, type JobOutcome } from './job.ts';
import type { Json } from './json.ts';
import { limits } from './limits.ts';
import { ElsewhereError, StepMeter, tooSlow } from './meter.ts';
import { OutputBudget } from './output-budget.ts';

/** What one job may take in a worker. */
export interface Allowance {
  readonly ms: number;
  readonly memory: number;
  readonly output: number;
}

export interface WorkerAnswer {
  readonly outcome: JobOutcome;
  readonly used: Allowance;
}

/** Threads that evaluate what is not simple, for tenants in turn. */
export interface ExpressionWorkers {
  /** @throws UnavailableError when too many wait. A job that overruns its allowance, or breaks its thread, is an outcome. */
  run(tenantId: string, job: Job, allowance: Allowance): Promise<WorkerAnswer>;
  close(): Promise<void>;
}

/** Thrown inside this library: which of a job's expressions failed. */
export class JobFailedError extends Error {
  override readonly name = 'JobFailedError';
  readonly failures: readonly JobFailure[];

  constructor(failures: readonly JobFailure[]) {
    super('expressions failed');
    this.failures = failures;
  }
}

/** The error to show for a failure. */
export function toExpressionError({ kind, message, position }: JobFailure, field?: string): Error {
  return kind === 'syntax'
    ? new ExpressionSyntaxError(message, position, field)
    : new ExpressionEvaluationError(message, field);
}

/**
 * The expressions of one request, which have one budget of time and memory, however many they are. Simple ones are evaluated at
 * once, and given without a promise; all else one after the other in a worker.
 */
export class RequestExpressions {
  readonly #tenantId: string;
  readonly #workers: ExpressionWorkers;
  #stepsHere: number = limits.stepsHereOfRequest;
  #ms: number = limits.requestMs;
  #memory: number = limits.memoryOfRequest;
  #output: number = limits.outputOfRequest;
  #last: Promise<unknown> = Promise.resolve();

  constructor(tenantId: string, workers: ExpressionWorkers) {
    this.#tenantId = tenantId;
    this.#workers = workers;
  }

  /** The values of the expressions, in order. @throws {JobFailedError} @throws UnavailableError */
  evaluate(sources: readonly string[], bindings: Bindings): readonly Json[] | Promise<readonly Json[]> {
    const job = { sources, bindings };
    const outcome = this.#here(job);
    return outcome === undefined ? this.#elsewhere(job).then(valuesOf) : valuesOf(outcome);
  }

  /** Undefined when it is too much for the thread that serves requests. */
  #here(job: Job): JobOutcome | undefined {
    const meter = new StepMeter(Math.min(limits.stepsHere, this.#stepsHere));
    const outputBudget = new OutputBudget(Math.min(limits.output, this.#output));
    try {
      const outcome = runJob(job, meter, outputBudget);
      this.#output -= outputBudget.used;
      return outcome;
    } catch (error) {
      if (error instanceof ElsewhereError) return undefined;
      throw error;
    } finally {
      this.#stepsHere -= meter.used;
    }
  }

  #elsewhere(job: Job): Promise<JobOutcome> {
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
    const { outcome, used } = await this.#workers.run(this.#tenantId, job, allowance);
    this.#ms -= used.ms;
    this.#memory -= used.memory;
    this.#output -= used.output;
    return outcome;
  }
}

function valuesOf(outcome: JobOutcome): readonly Json[] {
  if (outcome.kind === 'values') return outcome.values;
  throw new JobFailedError(outcome.failures);
}

/** The expressions of requests; see {@link RequestExpressions}. */
export interface Expressions {
  /** Those of a request, the same ones each time. @param request what stands for the request as long as it lasts */
  of(request: object, tenantId: string): RequestExpressions;
}

export function createExpressions(workers: ExpressionWorkers): Expressions {
  const known = new WeakMap<object, RequestExpressions>();
  return {
    of(request, tenantId) {
      let expressions = known.get(request);
      if (expressions === undefined)
        known.set(request, (expressions = new RequestExpressions(tenantId, workers)));
      return expressions;
    },
  };
}
