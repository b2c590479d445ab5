import type { Principal } from '@token-vault/access';
import {
  AccessDenied,
  AuthenticationFailed,
  EnterpriseRequiredError,
  ForbiddenError,
  operations,
  type Actor,
  type DataOf,
  type EntityType,
  type EventMetadata,
  type FoundEntity,
  type Operation,
  type OperationId,
} from '@token-vault/contracts';
import type { AuditTrail } from './audit-trail.ts';
import type { RetiredKey } from './callers.ts';
import { withReason } from './reason.ts';
import { createRequestContext, type RequestContext, type RequestContextOptions } from './request-context.ts';

type Refusal = ForbiddenError | EnterpriseRequiredError;

export const isRefusal = (error: unknown): error is Refusal =>
  error instanceof ForbiddenError || error instanceof EnterpriseRequiredError;

/** Finds an entity of the tenant by an unvalidated id. */
export type FindEntity = (tenantId: string, type: EntityType, id: string) => Promise<FoundEntity | undefined>;

/** The entity of the refusal: the one that the handler found, or the one that the path names, if it exists. */
async function findRefused(
  { entity, params }: Operation,
  tenantId: string,
  request: Refused,
  find: FindEntity | undefined,
): Promise<FoundEntity | undefined> {
  if (request.refusal instanceof ForbiddenError && request.refusal.entity) return request.refusal.entity;
  const given = params?.safeParse(request.params).data as { id?: unknown } | undefined;
  return typeof given?.id === 'string' ? find?.(tenantId, entity, given.id) : undefined;
}

export interface Refused {
  readonly refusal: Refusal;
  /** The path parameters as the caller wrote them. */
  readonly params: unknown;
}

/**
 * Records a refusal (403). It names an entity only when the entity was found, and with its real type. The caller's text may be a card
 * number, so no other part of the request is recorded.
 */
export async function recordDenied(
  { audit, findEntity }: { audit: AuditTrail; findEntity?: FindEntity | undefined },
  context: RequestContext,
  id: OperationId,
  request: Refused,
): Promise<void> {
  const operation: Operation = operations[id];
  const { entity, permission } = operation;
  const found = await findRefused(operation, context.principal.tenant.id, request, findEntity);
  const data: DataOf<'AccessDenied'> = {
    entity_type: found?.type ?? entity,
    ...(found === undefined ? {} : { entity_id: found.id }),
    ...(permission === null ? {} : { permission }),
    operation: id,
  };
  await audit.record(context, AccessDenied, data);
}

const recorded = new WeakSet<object>();

/** The log has the refusal: the executor does not record it once more when it ends a request. */
export const noteRecorded = (refusal: Refusal): void => void recorded.add(refusal);
export const isUnrecorded = (refusal: Refusal): boolean => !recorded.has(refusal);

interface RefusedCode {
  /** Of the request for which the code runs. */
  readonly metadata: EventMetadata;
  /** The reactor or the proxy. The record names it when the refusal names no token. */
  readonly code: FoundEntity;
  readonly now: Date;
}

/** Records that a step of running code was refused, in the name of whoever lacks the right: the caller, unless the refusal names another. */
export async function recordDeniedStep(
  audit: AuditTrail,
  { metadata, code, now }: RefusedCode,
  { lacking, entity = code }: ForbiddenError,
): Promise<void> {
  const { tenant_id: tenantId, trace_id: traceId, request = 'react', application_id: ofCaller } = metadata;
  const { actor, authorizedBy, permission } = lacking ?? {
    actor: metadata.actor,
    authorizedBy: ofCaller,
    permission: 'token:use',
  };
  const nobody = withoutRights(tenantId, actor);
  const by = withReason(authorizedBy === undefined ? nobody : { ...nobody, authorizedBy }, metadata.reason);
  const context = createRequestContext({ principal: by, traceId, now, request });
  const data = { entity_type: entity.type, entity_id: entity.id, permission, operation: request };
  await audit.record(context, AccessDenied, data);
}

/** The principal that the log names when its rights do not matter. */
const withoutRights = (tenantId: string, actor: Actor, applicationId = actor.id): Principal => ({
  tenant: { id: tenantId, plan: 'standard', settings: {} },
  actor,
  applicationId,
  applicationType: 'private',
  permissions: [],
  rules: [],
});

/** The principal that the log names for a retired key. It has no rights. */
const principalOfRetired = ({ tenantId, applicationId, sessionId }: RetiredKey): Principal =>
  withoutRights(
    tenantId,
    sessionId === undefined ? { kind: 'application', id: applicationId } : { kind: 'session', id: sessionId },
    applicationId,
  );

/** Records a failed authentication (401) with a key that was valid earlier, so that the tenant sees its use. */
export async function recordRetiredKey(
  audit: AuditTrail,
  key: RetiredKey,
  request: Omit<RequestContextOptions, 'principal'>,
): Promise<void> {
  const { applicationId: application_id, sessionId: session_id, reason } = key;
  const data: DataOf<'AuthenticationFailed'> = {
    application_id,
    ...(session_id === undefined ? {} : { session_id }),
    reason,
  };
  const context = createRequestContext({ ...request, principal: principalOfRetired(key) });
  await audit.record(context, AuthenticationFailed, data);
}
