import { createRequestContext, type Clock, type RequestContext } from '@token-vault/operations';
import { newId, type Plan, type SystemTask } from '@token-vault/contracts';

/** The context of the vault's own work for a tenant. The log names `task` as the actor. */
export function systemContext(
  tenantId: string,
  task: SystemTask,
  clock: Clock,
  options: { readonly plan?: Plan; readonly idempotencyScope?: readonly string[] } = {},
): RequestContext {
  return createRequestContext({
    principal: {
      tenant: { id: tenantId, plan: options.plan ?? 'enterprise', settings: {} },
      actor: { kind: 'system', id: task },
      applicationId: task,
      applicationType: 'management',
      permissions: [],
      rules: [],
    },
    traceId: newId(),
    now: clock.now(),
    idempotencyScope: options.idempotencyScope,
  });
}
