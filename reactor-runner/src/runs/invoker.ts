import { can, type Principal } from '@token-vault/access';
import {
  AccessDenied,
  ForbiddenError,
  mayHoldUnnamedTokens,
  ReactorDeleted,
  streams,
  type DataOf,
  type OutcomeContent,
  type VaultEvent,
} from '@token-vault/contracts';
import type { EventStore } from '@token-vault/event-store';
import { createRequestContext, withReason, type Clock, type RequestContext } from '@token-vault/operations';
import type { Invocation } from './invocation.ts';
import type { SeenTokens } from './seen-tokens.ts';
import type { Asked, DecideSeen, FindInvoker, OpenedTokens, OpenTokens, RefuseUse } from './ports.ts';

/** An invoker that no longer exists has no rights. The log still names it. */
const formerInvoker = ({ tenantId, metadata }: Invocation): Principal => ({
  tenant: { id: tenantId, plan: 'enterprise', settings: {} },
  actor: metadata.actor,
  applicationId: metadata.actor.id,
  applicationType: 'private',
  permissions: [],
  rules: [],
  ...(metadata.application_id === undefined ? {} : { authorizedBy: metadata.application_id }),
});

export const askedOf = ({ invoked, position }: Invocation): Asked => ({
  keyHash: invoked.key_hash,
  position,
});

/** A run acts in the name of the caller that invoked it. */
const contextFor = (invocation: Invocation, invoker: Principal | undefined, clock: Clock): RequestContext =>
  createRequestContext({
    principal: withReason(invoker ?? formerInvoker(invocation), invocation.metadata.reason),
    traceId: invocation.metadata.trace_id,
    request: 'react',
    now: clock.now(),
  });

/** The refusal when the invoker no longer exists, or may use no token at all. */
function refusalOfCaller(invoker: Principal | undefined): ForbiddenError | undefined {
  if (!invoker) return new ForbiddenError('The caller does not exist any more.');
  return can(invoker, 'token:use')
    ? undefined
    : new ForbiddenError('The caller lacks the permission token:use.');
}

const shownOnce = (): ForbiddenError =>
  new ForbiddenError('The code was shown more tokens than are named, so its result is shown once only.');

/** The record of a refusal. It names the token of the refusal, otherwise the reactor. */
function denied(
  { entity }: ForbiddenError,
  { invoked }: Invocation,
  context: RequestContext,
  permission: 'token:use' | 'token:read' = 'token:use',
): VaultEvent {
  const data: DataOf<'AccessDenied'> = {
    entity_type: entity?.type ?? 'reactor',
    entity_id: entity?.id ?? invoked.reactor_id,
    permission,
    operation: 'react',
  };
  return context.event(AccessDenied, data);
}

export interface OpenedForInvoker extends OpenedTokens {
  /** In the name of the invoker. */
  readonly context: RequestContext;
}

/**
 * Opens the tokens of a run by the present rights of its invoker, which may be fewer than at the request (rules.md
 * §6). A refusal is recorded with the claim, as a use is.
 */
export async function openForInvoker(
  invocation: Invocation,
  invoker: Principal | undefined,
  { openTokens, clock }: { readonly openTokens: OpenTokens; readonly clock: Clock },
): Promise<OpenedForInvoker> {
  const context = contextFor(invocation, invoker, clock);
  const refusal = refusalOfCaller(invoker);
  if (!refusal) return { ...(await openTokens(invocation.invoked.token_ids, context)), context };
  const tokens = Promise.reject(refusal);
  tokens.catch(() => undefined);
  return { use: [denied(refusal, invocation, context)], tokens, context };
}

export interface DeliveryRights {
  readonly clock: Clock;
  readonly findInvoker: FindInvoker;
  readonly refuseUse: RefuseUse;
  readonly decideSeen: DecideSeen;
}

export interface RefusedDelivery {
  readonly refusal: ForbiddenError;
  readonly record: VaultEvent;
}

/** A run at this moment: in the name of its invoker, and the refusal when the invoker may not use the tokens of the arguments. */
async function standingOf(
  invocation: Invocation,
  { clock, findInvoker, refuseUse }: Omit<DeliveryRights, 'decideSeen'>,
) {
  const { tenantId, metadata, invoked } = invocation;
  const invoker = await findInvoker(tenantId, metadata.actor, askedOf(invocation));
  const context = contextFor(invocation, invoker, clock);
  const since = new Date(metadata.occurred_at);
  const refusal = refusalOfCaller(invoker) ?? (await refuseUse(invoked.token_ids, since, context));
  return { context, since, refusal };
}

/**
 * Decides whether code that is running may go on with the data that it has, as a delivery of its result is decided.
 * @throws ForbiddenError
 */
export async function requireActingOf(
  invocation: Invocation,
  seen: Pick<SeenTokens, 'tokens'>,
  rights: DeliveryRights & { readonly store: Pick<EventStore, 'readStream'> },
): Promise<void> {
  const { context, since, refusal } = await standingOf(invocation, rights);
  if (refusal) throw refusal;
  const reactor = streams.reactor(invocation.tenantId, invocation.invoked.reactor_id);
  for await (const { type } of rights.store.readStream(reactor, { backwards: true, maxCount: 1 }))
    if (type === ReactorDeleted.type) throw new ForbiddenError('The reactor was deleted.');
  const decided = await rights.decideSeen(seen.tokens, since, context);
  if (decided.refusal) throw decided.refusal;
}

type DecidedDelivery =
  | { readonly refused: RefusedDelivery }
  | {
      readonly refused: undefined;
      readonly opened: OutcomeContent;
      /** Records the readings. Must be durable before the result is sent. */
      readonly record: () => Promise<void>;
    };

/**
 * A delivery shows the result, maybe hours later. So the rights are decided again, as for the repeat of a synchronous
 * run (rules.md §2): the invoker must exist and be allowed to use the tokens of the arguments, and the applications of
 * reactors must be allowed to see what their code was shown. The result may outlive a token, whose last state decides then.
 * A result that may hold tokens which are not named cannot be decided, so it is shown once, as the answer of a synchronous run is.
 * @param open opens the outcome; called when the invoker is allowed
 * @param isAgain whether there was an attempt before
 */
export async function decideDelivery(
  invocation: Invocation,
  rights: DeliveryRights,
  open: () => Promise<OutcomeContent>,
  isAgain: boolean,
): Promise<DecidedDelivery> {
  const { context, since, refusal } = await standingOf(invocation, rights);
  const refused = (refusal: ForbiddenError, permission?: 'token:read') => ({
    refused: { refusal, record: denied(refusal, invocation, context, permission) },
  });
  if (refusal) return refused(refusal);
  const opened = await open();
  if (isAgain && mayHoldUnnamedTokens(opened)) return refused(shownOnce(), 'token:read');
  const decided = await rights.decideSeen(opened.seen, since, context);
  if (decided.refusal) return refused(decided.refusal, 'token:read');
  return { refused: undefined, opened, record: () => decided.record() };
}
