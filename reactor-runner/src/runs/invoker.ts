import { can, type Principal } from '@token-vault/access';
import { AccessDenied, ForbiddenError, type DataOf, type VaultEvent } from '@token-vault/contracts';
import { createRequestContext, type Clock, type RequestContext } from '@token-vault/service-kit';
import type { Invocation } from './invocation.ts';
import type { FindInvoker, OpenedTokens, OpenTokens, RefuseUse } from './ports.ts';

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

/** A run acts in the name of the caller that asked for it. */
const contextFor = (invocation: Invocation, invoker: Principal | undefined, clock: Clock): RequestContext =>
  createRequestContext({
    principal: invoker ?? formerInvoker(invocation),
    traceId: invocation.metadata.trace_id,
    request: 'react',
    now: clock.now(),
  });

/** The invoker is no more, or may use no token at all. */
function refusalOfCaller(invoker: Principal | undefined): ForbiddenError | undefined {
  if (!invoker) return new ForbiddenError('The caller is no more.');
  return can(invoker, 'token:use')
    ? undefined
    : new ForbiddenError('The caller lacks the permission token:use.');
}

/** The record of a refusal: it names the token that it is about, else the reactor. */
function denied({ entity }: ForbiddenError, { invoked }: Invocation, context: RequestContext): VaultEvent {
  const data: DataOf<'AccessDenied'> = {
    entity_type: entity?.type ?? 'reactor',
    entity_id: entity?.id ?? invoked.reactor_id,
    permission: 'token:use',
    operation: 'react',
  };
  return context.event(AccessDenied, data);
}

/**
 * Opens the tokens of a run by what its invoker may do now, which may be less than when it asked (rules.md §6). A refusal is
 * on record with the claim, as a use would be.
 */
export async function openForInvoker(
  invocation: Invocation,
  invoker: Principal | undefined,
  { openTokens, clock }: { readonly openTokens: OpenTokens; readonly clock: Clock },
): Promise<OpenedTokens> {
  const context = contextFor(invocation, invoker, clock);
  const refusal = refusalOfCaller(invoker);
  if (!refusal) return openTokens(invocation.invoked.token_ids, context);
  const tokens = Promise.reject(refusal);
  tokens.catch(() => undefined);
  return { use: [denied(refusal, invocation, context)], tokens };
}

export interface DeliveryRights {
  readonly clock: Clock;
  readonly findInvoker: FindInvoker;
  readonly refuseUse: RefuseUse;
}

export interface RefusedDelivery {
  readonly refusal: ForbiddenError;
  readonly record: VaultEvent;
}

/**
 * A delivery shows what the run gave, maybe hours later. So it is decided anew, like the repeat of a synchronous run (rules.md §2): the
 * invoker must be there and may use the tokens of the arguments. Nothing that the outcome says of itself is asked, since it is not
 * signed. A token that is gone decides nothing: the result outlives it.
 */
export async function refusalOfDelivery(
  invocation: Invocation,
  { clock, findInvoker, refuseUse }: DeliveryRights,
): Promise<RefusedDelivery | undefined> {
  const { tenantId, metadata, invoked, position } = invocation;
  const invoker = await findInvoker(tenantId, metadata.actor, position);
  const context = contextFor(invocation, invoker, clock);
  const refusal = refusalOfCaller(invoker) ?? (await refuseUse(invoked.token_ids, context));
  return refusal && { refusal, record: denied(refusal, invocation, context) };
}
