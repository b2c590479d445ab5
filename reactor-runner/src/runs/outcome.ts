import { DomainError, ForbiddenError, type Json, type ReactorProblem } from '@token-vault/contracts';
import { EventStoreUnavailableError } from '@token-vault/event-store';
import { ExpressionEvaluationError, ExpressionSyntaxError } from '@token-vault/expressions';
import { problemOf, type RunOutcome } from '../sandbox/index.ts';

/** How an invocation ends. `body` is what a synchronous caller is answered. */
export type InvocationOutcome = (
  | { readonly kind: 'succeeded'; readonly body: Json }
  | {
      readonly kind: 'failed';
      readonly status: number;
      /** For the log: a word of ours, never the code's. */
      readonly reason: string;
      readonly problem: ReactorProblem;
    }
) & {
  /** Tokens that the code saw; undefined when they are too many to be named, or not known. */
  readonly seenTokenIds?: readonly string[] | undefined;
  /** When the first cvc ends that the code was shown: the outcome may tell of it. */
  readonly cvcEndsAt?: Date | undefined;
};
export type InvocationFailure = Extract<InvocationOutcome, { kind: 'failed' }>;

export function failureOfRun(outcome: Exclude<RunOutcome, { kind: 'succeeded' }>): InvocationFailure {
  const { status, ...problem } = problemOf(outcome);
  return { kind: 'failed', status, reason: outcome.kind, problem };
}

const internal = 'Something went wrong inside the vault. The trace id finds it in the logs.';

/** As code that throws an AuthorizationError would have it (rules.md §10). */
export const forbidden = ({ message }: ForbiddenError): ReactorProblem => ({
  detail: 'Forbidden',
  errors: { error: [message] },
});

/** What an error of ours around the run is to the invoker. Undefined for one that nobody foresaw. */
function foreseen(error: unknown): InvocationFailure | undefined {
  if (error instanceof ForbiddenError)
    return { kind: 'failed', status: error.status, reason: error.code, problem: forbidden(error) };
  if (error instanceof DomainError) {
    const problem = { detail: error.message, errors: error.errors ?? {} };
    return { kind: 'failed', status: error.status, reason: error.code, problem };
  }
  if (error instanceof ExpressionEvaluationError || error instanceof ExpressionSyntaxError) {
    const field = (error.field ?? 'args').replaceAll(/\[(\d+)\]/g, '.$1');
    const problem = {
      detail: 'The request is not valid; see errors.',
      errors: { [field]: [error.message] },
    };
    return { kind: 'failed', status: 400, reason: 'validation_failed', problem };
  }
  if (error instanceof EventStoreUnavailableError) {
    const problem = { detail: 'The vault cannot reach its store.', errors: {} };
    return { kind: 'failed', status: 503, reason: 'unavailable', problem };
  }
  return undefined;
}

export function failureOf(error: unknown, report: (error: unknown) => void): InvocationFailure {
  const failure = foreseen(error);
  if (failure) return failure;
  report(error);
  return { kind: 'failed', status: 500, reason: 'internal', problem: { detail: internal, errors: {} } };
}

/** Of a run whose runner is gone. */
export const lostRun: InvocationFailure = {
  kind: 'failed',
  status: 500,
  reason: 'lost',
  problem: {
    detail: 'Reactor Runtime Error',
    errors: { error: ['The reactor was stopped before it finished.'] },
  },
};
