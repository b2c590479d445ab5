import type { Principal } from '@token-vault/access';
import {
  idFrom,
  newEvent,
  newId,
  type EventMetadata,
  type EventName,
  type NewDataOf,
  type VaultEvent,
  type VaultEventType,
} from '@token-vault/contracts';

/** What a handler knows of the request besides its input. */
export interface RequestContext {
  readonly principal: Principal;
  readonly traceId: string;
  /** When the request began, by the injected clock: everything in one request happens at one instant. */
  readonly now: Date;
  /** SVC-TRANSACTION-ID of an enlistable operation. */
  readonly transactionId: string | undefined;
  /** What the request's events carry. */
  readonly metadata: EventMetadata;
  /** The same object in every context that is derived from one request: what a request may take is counted by it. */
  readonly identity: object;
  /** Sent under an idempotency key: it may be the repeat of a request that was cut off, in whole or in part done. */
  readonly isRepeatable: boolean;
  /** A new entity id; the same one when a command is repeated under its idempotency key. */
  newEntityId(): string;
  /** Makes an event of this request. Its id is deterministic under an idempotency key, so a repeat stores nothing twice. */
  event<Type extends VaultEventType>(
    name: EventName<Type>,
    data: NewDataOf<Type>,
  ): Extract<VaultEvent, { type: Type }>;
}

export interface RequestContextOptions {
  readonly principal: Principal;
  readonly traceId: string;
  readonly now: Date;
  readonly transactionId?: string | undefined;
  /** The operation of the table that is run; undefined for what nobody asked for by one. */
  readonly request?: string | undefined;
  /** The invocation that the request comes from. */
  readonly causationId?: string | undefined;
  /** Unique to the idempotent request: tenant, application, method, path and key. */
  readonly idempotencyScope?: readonly string[] | undefined;
}

export function createRequestContext(options: RequestContextOptions): RequestContext {
  const { principal, traceId, now, request, transactionId, causationId, idempotencyScope } = options;
  const metadata: EventMetadata = {
    tenant_id: principal.tenant.id,
    actor: principal.actor,
    trace_id: traceId,
    correlation_id: traceId,
    ...(causationId === undefined ? {} : { causation_id: causationId }),
    occurred_at: now.toISOString(),
    ...(transactionId === undefined ? {} : { transaction_id: transactionId }),
    ...(request === undefined ? {} : { request }),
    ...(principal.authorizedBy === undefined ? {} : { application_id: principal.authorizedBy }),
  };
  let count = 0;
  const nextId = (kind: string): string => {
    if (!idempotencyScope) return newId();
    count += 1;
    return idFrom(...idempotencyScope, kind, String(count));
  };
  return {
    principal,
    traceId,
    now,
    transactionId,
    metadata,
    identity: {},
    isRepeatable: idempotencyScope !== undefined,
    newEntityId: () => nextId('entity'),
    event: (name, data) => newEvent(name, data, { id: nextId('event'), metadata }),
  };
}
