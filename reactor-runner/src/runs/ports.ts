import type { Principal } from '@token-vault/access';
import type {
  Actor,
  Caused,
  CodeOwner,
  Json,
  JsonInput,
  OutcomeContent,
  VaultEvent,
  OperationId,
  ForbiddenError,
  ParentRun,
  SeenToken,
  TokenIdentity,
} from '@token-vault/contracts';
import type { Position } from '@token-vault/event-store';
import type { DetokenizedToken } from '@token-vault/expressions';
import type { RecordedRefusals, RequestContext } from '@token-vault/operations';
import type { WrittenExpressions } from './written-expressions.ts';

/** The run for which an operation is done. */
export interface RunOrigin {
  readonly tenantId: string;
  readonly invocationId: string;
  readonly traceId: string;
  /** Set when the invoker is shown no plaintext: the code is shown none for it either (docs/reference/console.md). */
  readonly shownAtMost?: Principal['shownAtMost'] | undefined;
  /** The reason that the invoker gave. Requests of the code are made for it too. */
  readonly reason?: string | undefined;
  /**
   * Decides whether the code may go on with the data that it has: before each change that it asks the vault for, and the tokens of its
   * output. The end of a cvc that it was given refuses them too. A change that takes long asks again. Its queries ask when the last of them
   * that asked is a second ago.
   * @throws DomainError
   */
  readonly requireActing: () => Promise<void>;
  /** The same before each request that the code sends. @throws DomainError */
  readonly requireSendable: () => Promise<void>;
  /** Those of the run that are in the log: equal ones are recorded once. */
  readonly refusals: RecordedRefusals | undefined;
  /** Records that one of these decisions refused a step of the code. The code is told of it afterwards. */
  readonly recordRefusal: (refusal: ForbiddenError) => Promise<void>;
  /**
   * Uses tokens that expressions of the code name for the callers of the run, and of those that it is nested in, as if these had sent the
   * expressions: the text of one may have come from a caller. The use is recorded when it resolves. @returns the tokens as used by the rights of
   * these callers @throws DomainError
   */
  readonly useNamed: (named: readonly string[]) => Promise<readonly SeenToken[]>;
  /** Evaluates expressions of the code for the same callers: errors count as misses of theirs. */
  readonly guess: GuessAs;
  /** When the run began, on the monotonic clock. */
  readonly beganAtMs: number;
  /** The run itself and the runs that it is nested in, with all that their code was shown up to now. */
  readonly parents: () => readonly ParentRun[];
  /**
   * Called with every token that the run is shown or creates: the answer may contain it. `areAll` is false when it was shown others too,
   * as by an inner run that made more than are named. @throws ConflictError when the code may not be given the answer: it was shown too many
   */
  readonly onTokens: (tokens: readonly ShownToken[], areAll?: boolean) => void;
  /** Called with the tokens that the code has deleted, for code of a proxy: its answer may hold their data. */
  readonly onDeleted?: ((tokens: readonly TokenIdentity[]) => void) | undefined;
}

/** `cvcEndsAt`: RFC 3339, unset when the token had no cvc at that time. */
export interface ShownToken extends SeenToken {
  readonly cvcEndsAt?: string | undefined;
}

/** The parts of a request that reactor code makes, not validated yet. */
export interface ServiceRequest {
  readonly operation: OperationId;
  readonly params?: Json;
  readonly query?: Json;
  readonly body?: Json;
  /** The expressions of the code. Other texts in its requests are no expressions. */
  readonly written?: WrittenExpressions;
}

/** Data that code has given to be tokenized. */
export interface RunOutput extends Pick<ServiceRequest, 'written'> {
  readonly payload: Json;
}

/**
 * The caller in whose name the tokens of an output are made. For a reactor it is the invoker, which needs no right to create tokens
 * (rules.md §8). For code of a proxy it is the proxy's application, by its rights.
 */
export type OutputWriter = { readonly invoker: Caused } | { readonly applicationId: string };

/** The operations that a runner needs from the vault. Its own process may answer, or a service elsewhere. */
export interface VaultOperations {
  /**
   * Runs an operation as the reactor's application: validated, authorised and recorded as over HTTP. It ends with the
   * run. @throws an error with `status` and `problem` (the body of the refusal)
   */
  asApplication(applicationId: string, request: ServiceRequest, origin: RunOrigin): Promise<Json>;
  /**
   * Tokenizes the output of a run. A repeat for the same run gives the same tokens.
   * @throws DomainError
   */
  tokenize(output: RunOutput, writer: OutputWriter, origin: RunOrigin): Promise<Json>;
}

/** The caller in whose name a run is begun. */
export interface Invoking {
  /** In the name of the invoker. */
  readonly context: RequestContext;
  /** The runs that this one is nested in. Empty when their rights refused the run. */
  readonly parents: readonly ParentRun[];
}

/** Tokens that are being opened. The code gets their data only after `use`, the record in the log, is durable. */
export interface OpenedTokens<Made = unknown> {
  readonly use: readonly VaultEvent[];
  /** `created_at` of each token, by id. */
  readonly madeAt: ReadonlyMap<string, string>;
  /** The end of the first cvc among them. Unset when no token has one. */
  readonly cvcEndsAt?: string | undefined;
  /** What was made of their data, which is not kept as long as the run. Never rejects before it is awaited. @throws DomainError */
  readonly made: Promise<Made>;
}

/**
 * The invoker of a run with its present rights. Undefined when it no longer exists, or when its key was regenerated
 * since. @throws UnavailableError when its rights cannot be read
 */
export type FindInvoker = (tenantId: string, actor: Actor, asked: Asked) => Promise<Principal | undefined>;

/** The time of an invocation. */
export interface Asked {
  /** The hash of the key that the caller used. Unset in an older release, where the position decides. */
  readonly keyHash: string | undefined;
  readonly position: Position | undefined;
}

/** The refusal when code is gone, or is not the code any more that ran, or lost its application since the run was asked for. */
export type RefuseOwner = (
  tenantId: string,
  owner: CodeOwner,
  since: Date,
) => Promise<ForbiddenError | undefined>;

/**
 * Reads tokens that were used since a moment. Gives a function of the caller's rights, which gives the refusal for the first token that the
 * caller may not use: the rights are found after the tokens, because reading the tokens takes longer.
 */
export type DecisionOnUse = (
  tokenIds: readonly string[],
  since: Date,
  context: RequestContext,
) => Promise<(present: RequestContext) => ForbiddenError | undefined>;

/**
 * Uses tokens for each of these callers. The use is recorded when it resolves. @throws ForbiddenError; ValidationError when
 * they have more than 4 MiB of data together
 */
export type UseNamed = (tokenIds: readonly string[], callers: readonly RequestContext[]) => Promise<void>;

/**
 * Decides about the result of a run by the tokens that its code was shown, by the present rights of the applications by
 * whose rights it was. Reads the tokens, which may take seconds, and gives the function that then finds the rights, and decides. `record` records
 * the readings; the result may be sent when it is done.
 */
export type DecisionOnSeen = (
  tokens: readonly SeenToken[],
  since: Date,
  context: RequestContext,
) => Promise<() => Promise<{ readonly refusal: ForbiddenError | undefined; record(): Promise<void> }>>;

/** A result as it may be shown at this moment. */
export interface PresentResult {
  /** For each token of the output: equal in a later decision when the result would show the token then as it does now. */
  readonly shown: readonly unknown[];
  /** With the tokens of the output in their present state. */
  value(): Promise<JsonInput>;
  /** Records the readings; the result may be sent when it is done. */
  record(): Promise<void>;
}

/**
 * Reads the tokens that were made of the output of a run. Gives the function that decides how the invoker may be shown them now, by its rights
 * to read them. Those that are withheld are shown by their identity alone.
 */
export type DecisionOnOutputs = (
  outcome: OutcomeContent,
  context: RequestContext,
) => Promise<(present: RequestContext, isWithheld: (index: number) => boolean) => PresentResult>;

/** Runs an evaluation over data that the invoker may not see. Its errors count as misses. @throws RateLimitedError */
export type Guess = <Result>(
  context: RequestContext,
  isMiss: (error: unknown) => boolean,
  work: () => Promise<Result>,
) => Promise<Result>;

/** The same for several callers. @throws RateLimitedError */
export type GuessAs = <Result>(
  isMiss: (error: unknown) => boolean,
  work: () => Promise<Result>,
) => Promise<Result>;

/** Finds the tokens that the arguments name, and begins to open them for the invoker. @throws DomainError */
export type OpenTokens = <Made>(
  tokenIds: readonly string[],
  context: RequestContext,
  make: (tokens: ReadonlyMap<string, DetokenizedToken>) => Promise<Made>,
) => Promise<OpenedTokens<Made>>;
