import type { Principal } from '@token-vault/access';
import type { ParentRun } from '@token-vault/contracts';
import { createRequestContext, withReason, type Clock, type RequestContext } from '@token-vault/operations';
import type { Invocation } from './invocation.ts';

/** An invoker that no longer exists has no rights. The log still names it. */
const formerInvoker = (
  tenantId: string,
  { actor, authorizedBy }: Pick<ParentRun, 'actor' | 'authorizedBy'>,
): Principal => ({
  tenant: { id: tenantId, plan: 'enterprise', settings: {} },
  actor,
  applicationId: actor.id,
  applicationType: 'private',
  permissions: [],
  rules: [],
  ...(authorizedBy === undefined ? {} : { authorizedBy }),
});

/** A run acts in the name of the caller that invoked it. */
export const contextFor = (
  { tenantId, metadata }: Pick<Invocation, 'tenantId' | 'metadata'>,
  run: Pick<ParentRun, 'actor' | 'authorizedBy' | 'reason' | 'owner'>,
  invoker: Principal | undefined,
  clock: Clock,
): RequestContext =>
  createRequestContext({
    // The stored run does not say whether the application itself called the proxy. So its caller counts as a client.
    principal: {
      ...withReason(invoker ?? formerInvoker(tenantId, run), run.reason),
      isProxyClient: 'proxyId' in run.owner,
    },
    traceId: metadata.trace_id,
    request: 'react',
    now: clock.now(),
  });
