import type { Principal } from '@token-vault/access';
import {
  idFrom,
  newEvent,
  newId,
  type EventMetadata,
  type EventName,
  type NewDataOf,
  type ParentRun,
  type VaultEvent,
  type VaultEventType,
} from '@token-vault/contracts';
import type { NamedSession, OutOfTurn } from './operation-request.ts';
import type { RecordedRefusals } from './recorded-refusals.ts';

/** The data of the request that a handler gets besides its input. */
export interface RequestContext {
  readonly principal: Principal;
  /** When the rights of `principal` were found, on the clock of `performance.now()`. */
  readonly admittedAtMs: number;
  readonly traceId: string;
  /** When the request began, by the injected clock. All times of one request are this instant. */
  readonly now: Date;
  /** SVC-TRANSACTION-ID of an enlistable operation. */
  readonly transactionId: string | undefined;
  /** The metadata of the request's events. */
  readonly metadata: EventMetadata;
  /**
   * The same request with the present rights of its caller. For a handler that waited for long: its answer is decided by the present rights
   * (rules.md §2). Undefined when the caller was authenticated a moment ago.
   * @throws UnauthenticatedError, ForbiddenError when the caller may not use the operation any more
   */
  renewed(): Promise<RequestContext | undefined>;
  /** The run whose code sent the request, and the runs that it is nested in. Empty for other requests. */
  readonly parents: readonly ParentRun[];
  /** Of the run of code that sent the request, or that the request asks for. Undefined for other requests. */
  readonly refusals: RecordedRefusals | undefined;
  /** The session of the console that the request's cookie names. */
  readonly consoleSession: (() => Promise<NamedSession | undefined>) | undefined;
  /** The same object in every context that is derived from one request. Limits for one request are counted by it. */
  readonly identity: object;
  /** The request has an idempotency key: it may repeat a request that was cut off, and that was done wholly, partly or not at all. */
  readonly isRepeatable: boolean;
  /**
   * The request for one of its items. Ids of its entities and events depend on the item's place alone under an idempotency key, in whatever
   * order the items are handled. Call it before the context is changed.
   */
  part(index: number): RequestContext;
  /** Unknown fields of a body within the body are ignored, as those of the body itself (`Prefer: handling=lenient`, rules.md §1). */
  readonly isLenient: boolean;
  /** The request takes up one with its idempotency key that was cut off: what that one stored is under the same event ids. */
  readonly isTakenOver: boolean;
  /**
   * Aborts when the client has gone: the request does not wait for a turn any more, because it holds memory meanwhile. Undefined for requests without
   * such a client.
   */
  readonly signal?: AbortSignal | undefined;
  /** From now on the request waits for work outside it, such as a run of a reactor, and gives its place to another request. */
  waitsForOthers(): void;
  /**
   * Waits for something that the request does not work for, such as a read model. Meanwhile its place serves another request; before it
   * goes on, it has a place again. @throws UnavailableError when too many requests wait, and any error of `wait`
   */
  readonly outOfTurn: OutOfTurn;
  /** The invocation that the request began is in the log. The entrance names it to the caller, also when the request fails later. */
  hasInvoked(invocationId: string): void;
  /** A new entity id; the same one when a command is repeated under its idempotency key. */
  newEntityId(): string;
  /**
   * The ids of the events of one command, by their order in it. They are the same in every attempt at the command, also after a conflict,
   * and in a repeat of the request.
   */
  newCommand(): (index: number) => string;
  /** Makes an event of this request, with `id` if it is given. Its id is deterministic under an idempotency key, so a repeat stores no event twice. */
  event<Type extends VaultEventType>(
    name: EventName<Type>,
    data: NewDataOf<Type>,
    id?: string,
  ): Extract<VaultEvent, { type: Type }>;
}

export interface RequestContextOptions {
  readonly principal: Principal;
  /** By default now. */
  readonly admittedAtMs?: number;
  readonly traceId: string;
  readonly now: Date;
  readonly transactionId?: string | undefined;
  /** The operation of the table that runs; undefined for work without one. */
  readonly request?: string | undefined;
  /** The invocation whose code sent the request, or the line of a file that an import reads. */
  readonly causationId?: string | undefined;
  readonly parents?: readonly ParentRun[] | undefined;
  readonly refusals?: RecordedRefusals | undefined;
  /** Authenticates the caller again; undefined result when the caller was authenticated a moment ago. */
  readonly principalNow?: (() => Promise<Principal | undefined>) | undefined;
  readonly consoleSession?: (() => Promise<NamedSession | undefined>) | undefined;
  /** Aborts when the client has gone. */
  readonly signal?: AbortSignal | undefined;
  /** Called when the request waits for other requests. */
  readonly onWaiting?: (() => void) | undefined;
  readonly outOfTurn?: OutOfTurn | undefined;
  /** Called with the invocation that the request began. */
  readonly onInvoked?: ((invocationId: string) => void) | undefined;
  /** Unique to the idempotent request: tenant, application, method, path and key. */
  readonly idempotencyScope?: readonly string[] | undefined;
  readonly isLenient?: boolean | undefined;
  /** Of the request whose item this is; a new one by default. */
  readonly identity?: object;
  /** Whether the request takes up one that was cut off. By default it may, when it has an idempotency scope. */
  readonly isTakenOver?: boolean | undefined;
}

function metadataOf(options: RequestContextOptions): EventMetadata {
  const { principal, traceId, now, request, transactionId, causationId } = options;
  return {
    tenant_id: principal.tenant.id,
    actor: principal.actor,
    trace_id: traceId,
    correlation_id: traceId,
    ...(causationId === undefined ? {} : { causation_id: causationId }),
    occurred_at: now.toISOString(),
    ...(transactionId === undefined ? {} : { transaction_id: transactionId }),
    ...(request === undefined ? {} : { request }),
    ...(principal.reason === undefined ? {} : { reason: principal.reason }),
    ...(principal.authorizedBy === undefined ? {} : { application_id: principal.authorizedBy }),
  };
}

export function createRequestContext(options: RequestContextOptions): RequestContext {
  const { principal, traceId, now, transactionId, idempotencyScope, identity = {} } = options;
  const { admittedAtMs = performance.now() } = options;
  const metadata = metadataOf(options);
  let count = 0;
  let commands = 0;
  const nextId = (kind: string): string => {
    if (!idempotencyScope) return newId();
    count += 1;
    return idFrom(...idempotencyScope, kind, String(count));
  };
  const partsFor = (by: Principal) => (index: number) =>
    createRequestContext({
      ...options,
      principal: by,
      identity,
      idempotencyScope: idempotencyScope && [...idempotencyScope, 'item', String(index)],
    });
  const context: RequestContext = {
    principal,
    admittedAtMs,
    traceId,
    now,
    transactionId,
    metadata,
    async renewed() {
      const now = await options.principalNow?.();
      return now && { ...context, principal: now, admittedAtMs: performance.now(), part: partsFor(now) };
    },
    identity,
    parents: options.parents ?? [],
    refusals: options.refusals,
    consoleSession: options.consoleSession,
    isRepeatable: idempotencyScope !== undefined,
    isLenient: options.isLenient ?? false,
    part: partsFor(principal),
    isTakenOver: options.isTakenOver ?? idempotencyScope !== undefined,
    signal: options.signal,
    waitsForOthers: () => options.onWaiting?.(),
    outOfTurn: options.outOfTurn ?? ((wait) => wait()),
    hasInvoked: (invocationId) => options.onInvoked?.(invocationId),
    newEntityId: () => nextId('entity'),
    newCommand() {
      commands += 1;
      const command = String(commands);
      const ids: string[] = [];
      const make = (index: number) =>
        idempotencyScope ? idFrom(...idempotencyScope, 'command', command, String(index)) : newId();
      return (index) => (ids[index] ??= make(index));
    },
    event: (name, data, id = nextId('event')) => newEvent(name, data, { id, metadata }),
  };
  return context;
}
