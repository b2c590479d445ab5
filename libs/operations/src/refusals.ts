import type { Principal } from '@token-vault/access';
import {
  AccessDenied,
  AuthenticationFailed,
  EnterpriseRequiredError,
  ForbiddenError,
  operations,
  type DataOf,
  type Operation,
  type OperationId,
} from '@token-vault/contracts';
import type { AuditTrail } from './audit-trail.ts';
import type { RetiredKey } from './callers.ts';
import type { RequestContext } from './request-context.ts';

export const isRefusal = (error: unknown): error is ForbiddenError | EnterpriseRequiredError =>
  error instanceof ForbiddenError || error instanceof EnterpriseRequiredError;

/**
 * The record of a refusal (403). It names an entity only when the refusal carries one, which it does only when the entity was found:
 * what the caller wrote may be a card number, so nothing is taken from the request.
 */
export async function recordDenied(
  audit: AuditTrail,
  context: RequestContext,
  id: OperationId,
  refusal: ForbiddenError | EnterpriseRequiredError,
): Promise<void> {
  const { entity, permission }: Operation = operations[id];
  const found = refusal instanceof ForbiddenError ? refusal.entity : undefined;
  const data: DataOf<'AccessDenied'> = {
    entity_type: found?.type ?? entity,
    ...(found === undefined ? {} : { entity_id: found.id }),
    ...(permission === null ? {} : { permission }),
    operation: id,
  };
  await audit.record(context, AccessDenied, data);
}

/** Who the log says a retired key was. It can do nothing. */
export const principalOfRetired = (key: RetiredKey): Principal => ({
  tenant: { id: key.tenantId, plan: 'standard', settings: {} },
  actor: { kind: 'application', id: key.applicationId },
  applicationId: key.applicationId,
  applicationType: 'private',
  permissions: [],
  rules: [],
});

export async function recordRetiredKey(
  audit: AuditTrail,
  context: RequestContext,
  key: RetiredKey,
): Promise<void> {
  const data = { application_id: key.applicationId, reason: key.reason };
  await audit.record(context, AuthenticationFailed, data);
}
