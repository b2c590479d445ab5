import type { Principal } from '@token-vault/access';
import type { Actor, Caused, Json, VaultEvent, OperationId, ForbiddenError } from '@token-vault/contracts';
import type { Position } from '@token-vault/event-store';
import type { DetokenizedToken } from '@token-vault/expressions';
import type { RequestContext } from '@token-vault/service-kit';

/** The run on whose behalf something is done. */
export interface RunOrigin {
  readonly tenantId: string;
  readonly invocationId: string;
  readonly traceId: string;
  /** Told of every token that the run is shown or makes: what it answers may tell of them. */
  readonly onTokens: (tokens: readonly SeenToken[]) => void;
}

/** `cvcEndsAt`: RFC 3339, unset when the token had no cvc at that moment. */
export interface SeenToken {
  readonly id: string;
  readonly cvcEndsAt?: string | undefined;
}

/** The validated-by-nobody parts of a request that reactor code makes. */
export interface ServiceRequest {
  readonly operation: OperationId;
  readonly params?: Json;
  readonly query?: Json;
  readonly body?: Json;
}

/** What a runner asks of the vault. Its own process may answer, or services elsewhere. */
export interface VaultOperations {
  /**
   * An operation of the interface as the reactor's application: validated, authorised and recorded as over HTTP. It ends
   * with the run. @throws an error with `status` and `problem` (the body of the refusal)
   */
  asApplication(applicationId: string, request: ServiceRequest, origin: RunOrigin): Promise<Json>;
  /**
   * Tokenizes the output of a run, for who invoked it. Repeating it for the same run gives the same tokens.
   * @throws DomainError
   */
  tokenize(payload: Json, invoker: Caused, origin: RunOrigin): Promise<Json>;
}

/** Tokens that are being opened. They are shown to nobody before `use`, which says so in the log, is durable. */
export interface OpenedTokens {
  readonly use: readonly VaultEvent[];
  /** When the first cvc of them ends; unset when none has one. */
  readonly cvcEndsAt?: string | undefined;
  /** In plaintext. Never rejects before it is awaited. @throws DomainError */
  readonly tokens: Promise<ReadonlyMap<string, DetokenizedToken>>;
}

/**
 * Who asked for a run at that position of the log, with the rights of this moment; undefined when it is no more, or its key was
 * regenerated since. @throws UnavailableError when that is not known
 */
export type FindInvoker = (
  tenantId: string,
  actor: Actor,
  askedAt: Position,
) => Promise<Principal | undefined>;

/** About the first of these tokens that the caller may not use now. Those that are gone are left out. */
export type RefuseUse = (
  tokenIds: readonly string[],
  context: RequestContext,
) => Promise<ForbiddenError | undefined>;

/** Finds the tokens that arguments name, and begins to open them for who asked for the run. @throws DomainError */
export type OpenTokens = (tokenIds: readonly string[], context: RequestContext) => Promise<OpenedTokens>;
