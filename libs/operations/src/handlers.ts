import type {
  BodyOf,
  DomainError,
  Operation,
  OperationId,
  Operations,
  ParamsOf,
  QueryOf,
} from '@token-vault/contracts';
import type { Position } from '@token-vault/event-store';
import type { RequestContext } from './request-context.ts';

/** The validated parts of a request, as the operations table types them. */
export interface Input<Id extends OperationId> {
  readonly params: ParamsOf<Operations[Id]>;
  readonly query: QueryOf<Operations[Id]>;
  readonly body: BodyOf<Operations[Id]>;
}

/** A way into a body. */
export type Path = readonly (string | number)[];

/** A token that is in an answer or went into it. */
export interface AnswerToken {
  readonly id: string;
  /** Unset where the handler does not know it. */
  readonly createdAt?: string | undefined;
  /** Where the body holds it whole; unset when the body holds what was made of it. */
  readonly at?: Path | undefined;
  /** When its cvc ends, as it was when the token was shown or used; unset when it had none. */
  readonly cvcEndsAt?: string | undefined;
  /**
   * What let the caller have it: the right to create or update it; deduplication; the use in arguments of a reactor; the output of a
   * reactor, shown as masked; or code of a reactor has seen it, by the right of its application.
   */
  readonly by:
    'create' | 'update' | 'duplicate-of-create' | 'duplicate-of-update' | 'use' | 'output' | 'seen';
}

/** An entity of the key ring. Answers that name it end when its keys are destroyed. */
export interface AnswerOwner {
  readonly entity: string;
  /** Reads the log. Ask after a key of the entity was made: an end that came before did not destroy that key. */
  isThere(): Promise<boolean>;
}

export interface Answer {
  /** The operation's own success status unless given. */
  readonly status?: number;
  /** Sent as JSON; nothing is sent when absent. */
  readonly body?: unknown;
  /** Of the last event a command appended: the answer waits until the read models have passed it. */
  readonly position?: Position | undefined;
  /**
   * Nothing was done, because it had been done before, at `position`: this is the answer unless that was never confirmed (rules.md
   * §6, a repeat confirms it).
   */
  readonly ifConfirmedBefore?: DomainError;
  /** There when reactor code chose the whole response: then a string body is sent as it stands (custom-answer.ts). */
  readonly headers?: Readonly<Record<string, string>>;
  /** All tokens that are in the body or went into it, by which a repeat of the request is judged (rules.md §2). */
  readonly tokens?: readonly AnswerToken[];
  /** Something else than a token of which the body may hold data: a stored answer ends with it too. */
  readonly endsWith?: AnswerOwner | undefined;
  /** It is not known which tokens went into it: it cannot be shown again. */
  readonly isUnrepeatable?: boolean;
}

export type Handler<Id extends OperationId> = (input: Input<Id>, context: RequestContext) => Promise<Answer>;

/** The operations a process answers. */
export type Handlers = { readonly [Id in OperationId]?: Handler<Id> };

type IdsOf<Service extends Operation['service']> = {
  [Id in OperationId]: Operations[Id]['service'] extends Service ? Id : never;
}[OperationId];

/** All operations of a service: one that lacks a handler does not compile. */
export type HandlersOf<Service extends Operation['service']> = {
  readonly [Id in IdsOf<Service>]: Handler<Id>;
};
