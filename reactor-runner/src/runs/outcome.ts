import { DomainError, ForbiddenError, type Json, type ReactorProblem } from '@token-vault/contracts';
import { ExpressionEvaluationError, ExpressionSyntaxError } from '@token-vault/expressions';
import { isUnavailable, type RecordedRefusals } from '@token-vault/operations';
import { problemOf, type GuestConsole, type RunOutcome } from '../sandbox/index.ts';
import type { SeenTokens } from './seen-tokens.ts';

/** The end of an invocation. `body` is the answer to a synchronous caller. */
export type InvocationOutcome = (
  | { readonly kind: 'succeeded'; readonly body: Json }
  | {
      readonly kind: 'failed';
      readonly status: number;
      /** A fixed reason for the log, never text of the code. */
      readonly reason: string;
      readonly problem: ReactorProblem;
    }
) & {
  /** The tokens that the code was shown: the outcome may contain their data. Undefined when it is unknown, or when no code ran. */
  readonly seen?: Pick<SeenTokens, 'tokens' | 'used' | 'isComplete' | 'cvcEndsAt'> | undefined;
  /** The refusals of its steps that are in the log. Undefined when no code ran. */
  readonly refusals?: RecordedRefusals | undefined;
  /** The lines that the code printed. Undefined when no code ran. */
  readonly console?: GuestConsole | undefined;
  /** Whether these lines may hold data of tokens that `seen` does not name. */
  readonly mayHoldTokens?: boolean | undefined;
};
export type InvocationFailure = Extract<InvocationOutcome, { kind: 'failed' }>;

export function failureOfRun(outcome: Exclude<RunOutcome, { kind: 'succeeded' }>): InvocationFailure {
  const { status, ...problem } = problemOf(outcome);
  return { kind: 'failed', status, reason: outcome.kind, problem };
}

const internal = 'Something went wrong inside the vault. The trace id finds it in the logs.';

/** The answer is the one of code that throws an AuthorizationError (rules.md §10). */
export const forbidden = ({ message }: ForbiddenError): ReactorProblem => ({
  detail: 'Forbidden',
  errors: { error: [message] },
});

/** The failure that the invoker gets for an error of the vault around the run. Undefined for an unexpected error. */
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
  if (isUnavailable(error)) {
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

/** The failure of a run whose runner is gone. */
export const lostRun: InvocationFailure = {
  kind: 'failed',
  status: 500,
  reason: 'lost',
  problem: {
    detail: 'Reactor Runtime Error',
    errors: { error: ['The reactor was stopped before it finished.'] },
  },
};
