import { can, type Principal } from '@token-vault/access';
import { AccessDenied, ForbiddenError, type DataOf } from '@token-vault/contracts';
import { createRequestContext, type Clock } from '@token-vault/service-kit';
import type { Invocation } from './invocation.ts';
import type { OpenedTokens, OpenTokens } from './ports.ts';

/** Who is no more may do nothing; the log names it. */
const formerInvoker = ({ tenantId, metadata }: Invocation): Principal => ({
  tenant: { id: tenantId, plan: 'enterprise', settings: {} },
  actor: metadata.actor,
  applicationId: metadata.actor.id,
  applicationType: 'private',
  permissions: [],
  rules: [],
  ...(metadata.application_id === undefined ? {} : { authorizedBy: metadata.application_id }),
});

/**
 * Opens the tokens of a run by what its invoker may do now, which may be less than when it asked (decisions.md §6). A refusal is
 * on record with the claim, as a use would be.
 */
export async function openForInvoker(
  invocation: Invocation,
  invoker: Principal | undefined,
  { openTokens, clock }: { readonly openTokens: OpenTokens; readonly clock: Clock },
): Promise<OpenedTokens> {
  const { invoked, metadata } = invocation;
  // What is done in a run is done in the name of who asked for it.
  const context = createRequestContext({
    principal: invoker ?? formerInvoker(invocation),
    traceId: metadata.trace_id,
    request: 'react',
    now: clock.now(),
  });
  if (invoker && can(invoker, 'token:use')) return openTokens(invoked.token_ids, context);
  const data: DataOf<'AccessDenied'> = {
    entity_type: 'reactor',
    entity_id: invoked.reactor_id,
    permission: 'token:use',
    operation: 'react',
  };
  const reason = invoker ? 'The caller lacks the permission token:use.' : 'The caller is no more.';
  const tokens = Promise.reject(new ForbiddenError(reason));
  tokens.catch(() => undefined);
  return { use: [context.event(AccessDenied, data)], tokens };
}
