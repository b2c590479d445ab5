import type { Principal } from '@token-vault/access';
import {
  AccessDenied,
  AuthenticationFailed,
  EnterpriseRequiredError,
  ForbiddenError,
  operations,
  type DataOf,
  type EntityType,
  type FoundEntity,
  type Operation,
  type OperationId,
} from '@token-vault/contracts';
import type { AuditTrail } from './audit-trail.ts';
import type { RetiredKey } from './callers.ts';
import { createRequestContext, type RequestContext, type RequestContextOptions } from './request-context.ts';

export const isRefusal = (error: unknown): error is ForbiddenError | EnterpriseRequiredError =>
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
  readonly refusal: ForbiddenError | EnterpriseRequiredError;
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

/** The principal that the log names for a retired key. It has no rights. */
const principalOfRetired = (key: RetiredKey): Principal => ({
  tenant: { id: key.tenantId, plan: 'standard', settings: {} },
  actor:
    key.sessionId === undefined
      ? { kind: 'application', id: key.applicationId }
      : { kind: 'session', id: key.sessionId },
  applicationId: key.applicationId,
  applicationType: 'private',
  permissions: [],
  rules: [],
});

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
