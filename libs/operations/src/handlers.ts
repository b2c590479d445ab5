import type { Principal } from '@token-vault/access';
import type {
  AskedToken,
  BodyOf,
  DomainError,
  Operation,
  OperationId,
  Operations,
  ParamsOf,
  QueryOf,
  TokenIdentity,
  TokenPermission,
  Transform,
} from '@token-vault/contracts';
import type { Position } from '@token-vault/event-store';
import type { Readable } from 'node:stream';
import type { RequestContext } from './request-context.ts';

/** The validated parts of a request, with the types of the operations table. */
export interface Input<Id extends OperationId> {
  readonly params: ParamsOf<Operations[Id]>;
  readonly query: QueryOf<Operations[Id]>;
  readonly body: BodyOf<Operations[Id]>;
}

/** The path to a value in a body. */
export type Path = readonly (string | number)[];

/** By which right a token was shown, and how. `shownBy` has the transform of a token without a mask. */
export interface Showing {
  readonly permission: TokenPermission;
  readonly transform: Transform;
  /** The application of a reactor, by whose rights its code was shown the token. Unset where the caller itself was shown it. */
  readonly applicationId?: string | undefined;
  /** The answer shows no data of the token, but was made of it. */
  readonly isTold?: true | undefined;
  /** The token that a create asked for, where deduplication gave this one instead: the right to make that one decides. */
  readonly asked?: AskedToken | undefined;
  /** Of a run, not of a token: the revision of its reactor. */
  readonly ran?: number | undefined;
  /** When that run was asked for, RFC 3339. Unset in what an older release stored. */
  readonly ranSince?: string | undefined;
}

/** A token that is in an answer, or whose data the answer was made of. */
export interface AnswerToken {
  readonly id: string;
  /** Unset where the handler does not know it. */
  readonly createdAt?: string | undefined;
  /** The place of the whole token in the body; unset when the body holds only a value made of the token. */
  readonly at?: Path | undefined;
  /**
   * When the answer was made of the token, RFC 3339. A token that was created later under the same id is a different token. Unset where
   * `createdAt` tells them apart.
   */
  readonly asOf?: string | undefined;
  /** When the token's cvc expires, as it was when the token was shown or used; unset when it had none. */
  readonly cvcEndsAt?: string | undefined;
  /** When the token expires, of a query; unset when it does not. */
  readonly expiresAt?: string | undefined;
  /**
   * The reason why the caller got the token: the right to create or update it; deduplication; its use in arguments of a reactor; the output
   * of a reactor, shown as masked; or that a query or code of a reactor was shown it; `ran`: the entry holds no data of a token, but decides. Its id is that of the reactor whose run gave
   * the answer, or gave code an answer, or is an id that an expression of the code named. For code the rights of the reactor's application decide (`shown.applicationId`).
   */
  readonly by:
    'create' | 'update' | 'duplicate-of-create' | 'duplicate-of-update' | 'use' | 'output' | 'seen' | 'ran';
  /** Unset where nothing of the token was shown. */
  readonly shown?: Showing | undefined;
}

/** An entity of the key ring. Answers that name it expire when its keys are destroyed. */
export interface AnswerOwner {
  readonly entity: string;
  /**
   * Whether the entity exists, read from the log. Call it after a key of the entity was made: a deletion before that did not destroy the
   * key.
   */
  isThere(): Promise<boolean>;
}

export interface Decided {
  /** When the rights were found, on the clock of `performance.now()`. */
  readonly atMs: number;
  /** The caller with these rights. */
  readonly principal: Principal;
  /** Decides by the present rights of the caller. @throws DomainError */
  again(context: RequestContext): Promise<Answer>;
  /**
   * Whether `again` is needed though the caller has the same rights. True where nothing takes long after the rights are found. Otherwise it
   * decides anew, and compares the tokens of the answer: their masks may take long, each time. @throws DomainError
   */
  isOvertaken(context: RequestContext, answer: Answer): Promise<boolean>;
}

/** The answer of another server, on its way. */
export interface AnswerStream {
  readonly status: number;
  /** A character is a byte. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** The receiver must read it to its end, or destroy it. */
  readonly body: Readable;
}

/** An answer that shows tokens and may take long. What it shows is decided and recorded until it leaves (ADR 16). */
export interface PendingAnswer {
  /**
   * Called when the answer took long. Shows the tokens anew that have ended, were moved or were changed since they were read. `isLast`: they
   * are changed faster than they are shown, so nothing is opened for them any more. @returns whether there were any
   */
  renew(context: RequestContext, isLast: boolean): Promise<boolean>;
  /** Records what the answer shows and what is not on record yet. @throws EventStoreUnavailableError: then there is no answer. */
  record(context: RequestContext): Promise<void>;
  /** Undefined while something that the answer shows is not on record. */
  answer(): Answer | undefined;
}

export interface Answer {
  /** The operation's own success status unless given. */
  readonly status?: number;
  /** Sent as JSON. When absent, the answer has no body. */
  readonly body?: unknown;
  /** The position of the last event that a command appended: the answer waits until the read models have passed it. */
  readonly position?: Position | undefined;
  /**
   * The command did nothing, because it had been done before, at `position`. This error is the answer unless the earlier command was never
   * confirmed (rules.md §6: a repeat confirms it).
   */
  readonly ifConfirmedBefore?: DomainError;
  /** Set when reactor code chose the whole response: then a string body is sent unchanged (custom-answer.ts). */
  readonly headers?: Readonly<Record<string, string>>;
  /** Whether the answer sets or removes the cookie of the console. */
  readonly cookie?: { readonly set: string } | 'cleared';
  /** The answer of another server, sent on as it comes; then there is no body. */
  readonly stream?: AnswerStream;
  /** The invocation that gave the answer: a repeat of the request names it too. */
  readonly invocationId?: string;
  /** All tokens that are in the body or whose data it was made of. A repeat of the request is decided by them (rules.md §2). */
  readonly tokens?: readonly AnswerToken[];
  /** The streams of the entities whose rights the command withdrew, where they are not of the entity that the operation names. */
  readonly revoked?: readonly string[];
  /** The tokens that the command deleted. */
  readonly deleted?: readonly TokenIdentity[];
  /**
   * When the first cvc ends that the answer may hold, in ms since the epoch: an answer that leaves later is decided again. Unset where the
   * whole tokens in it say so (`tokens`).
   */
  readonly endsAtMs?: number | undefined;
  /** Of a query that shows tokens: the answer itself, which is given when it is on record. */
  readonly pending?: PendingAnswer | undefined;
  /** How the answer was decided, where it is decided again when it leaves much later: the answer of a run, or one that is shown again. */
  readonly decided?: Decided | undefined;
  /** An entity other than a token whose data the body may hold: a stored answer expires with it too. */
  readonly endsWith?: AnswerOwner | undefined;
  /**
   * The request had been done before, but was cut off before its answer was stored. The handler found this answer instead of making it. It
   * is decided like any repeat before it leaves.
   */
  readonly isRepeat?: boolean | undefined;
  /** The tokens that the answer was made of are not known, so it cannot be shown again. */
  readonly isUnrepeatable?: boolean;
}

export type Handler<Id extends OperationId> = (input: Input<Id>, context: RequestContext) => Promise<Answer>;

/** The operations that a process answers. */
export type Handlers = { readonly [Id in OperationId]?: Handler<Id> };

type IdsOf<Service extends Operation['service']> = {
  [Id in OperationId]: Operations[Id]['service'] extends Service ? Id : never;
}[OperationId];

/** All operations of a service. A missing handler does not compile. */
export type HandlersOf<Service extends Operation['service']> = {
  readonly [Id in IdsOf<Service>]: Handler<Id>;
};
