import type { ConsoleLine, Json } from '@token-vault/contracts';

/**
 * The output of guest code. It may hold token data: it is given to the reactor's owner, and never written to the
 * vault's logs.
 */
export interface GuestConsole {
  readonly lines: readonly ConsoleLine[];
  /** True when lines were dropped because the limits were reached. */
  readonly truncated: boolean;
}

export interface GuestResult {
  readonly raw?: Json;
  readonly tokenize?: Json;
}

/** An error thrown by the code, in the form of rules.md §10. */
export interface GuestFailure {
  readonly status: number;
  readonly detail: string;
  readonly errors: Readonly<Record<string, readonly string[]>>;
  /** Present when the code chose the whole response itself (`CustomHttpResponseError`). */
  readonly custom?: { readonly headers: Readonly<Record<string, string>>; readonly body?: Json };
}

/** A position in the tenant's code, both counted from 1. */
export interface CompileProblem {
  readonly message: string;
  readonly line?: number;
  readonly column?: number;
}

/** The end of a run. Every kind except `succeeded` is a problem for the caller; see {@link problemOf}. */
export type RunOutcome = { readonly console: GuestConsole } & (
  | { readonly kind: 'succeeded'; readonly result: GuestResult }
  | ({ readonly kind: 'failed' } & GuestFailure)
  | ({ readonly kind: 'compile-error' } & CompileProblem)
  | { readonly kind: 'limit-exceeded'; readonly limit: string }
  | { readonly kind: PlainOutcomeKind }
);

export type PlainOutcomeKind =
  | 'timed-out'
  | 'out-of-memory'
  | 'output-too-large'
  | 'not-serialisable'
  | 'never-settled'
  | 'killed'
  | 'overloaded';

export type CompileOutcome =
  | { readonly kind: 'compiled' }
  | ({ readonly kind: 'compile-error' } & CompileProblem)
  | { readonly kind: 'unavailable' };

/** The problem body of a failed run. `custom` replaces it completely when present. */
export interface RunProblem {
  readonly status: number;
  readonly detail: string;
  readonly errors: Readonly<Record<string, readonly string[]>>;
  readonly custom?: { readonly headers: Readonly<Record<string, string>>; readonly body?: Json };
}

export const emptyConsole: GuestConsole = { lines: [], truncated: false };

export const runtimeErrorDetail = 'Reactor Runtime Error';

const plainProblems: Record<PlainOutcomeKind, { status: number; message: string }> = {
  'timed-out': { status: 500, message: 'The reactor exceeded its time limit (timeout).' },
  'out-of-memory': { status: 500, message: 'The reactor exceeded its memory limit.' },
  'output-too-large': { status: 500, message: 'The output of the reactor exceeds the size limit of 1 MiB.' },
  'not-serialisable': { status: 500, message: 'The output of the reactor cannot be expressed as JSON.' },
  'never-settled': { status: 500, message: 'The reactor returned a promise that can never settle.' },
  killed: { status: 500, message: 'The reactor was stopped before it finished.' },
  overloaded: { status: 503, message: 'Too many reactor runs are waiting.' },
};

/** Translates an unsuccessful outcome into the common error format (rules.md §1 and §10). */
export function problemOf(outcome: Exclude<RunOutcome, { kind: 'succeeded' }>): RunProblem {
  switch (outcome.kind) {
    case 'failed': {
      const { status, detail, errors, custom } = outcome;
      return custom === undefined ? { status, detail, errors } : { status, detail, errors, custom };
    }
    case 'compile-error':
      return {
        status: 422,
        detail: 'The reactor code does not compile.',
        errors: { code: [describeCompileProblem(outcome)] },
      };
    case 'limit-exceeded':
      return {
        status: 500,
        detail: runtimeErrorDetail,
        errors: { error: [`The reactor exceeded its limit of ${outcome.limit}.`] },
      };
    default: {
      const { status, message } = plainProblems[outcome.kind];
      return { status, detail: runtimeErrorDetail, errors: { error: [message] } };
    }
  }
}

/** `Line 3, column 7: Unexpected token '}'` */
export function describeCompileProblem(problem: CompileProblem): string {
  if (problem.line === undefined) return problem.message;
  const column = problem.column === undefined ? '' : `, column ${problem.column}`;
  return `Line ${problem.line}${column}: ${problem.message}`;
}
