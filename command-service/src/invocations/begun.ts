import { ConflictError, type DataOf, type EventMetadata } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { RequestContext } from '@token-vault/operations';
import { requireGenuine, type InvocationState } from './state.ts';

/** An invocation that was appended. */
export interface Begun {
  readonly invoked: DataOf<'ReactorInvoked'>;
  readonly metadata: EventMetadata;
}

/**
 * The invocation that an earlier attempt of the request appended. Its tokens and its time decide about the answer. @throws
 * AlteredRecordError; ConflictError when another caller began it, or when it is one of another reactor
 */
export async function begunBefore(
  keyRing: Pick<KeyRing, 'hashes'>,
  { id, reactorId }: { readonly id: string; readonly reactorId: string },
  state: Exclude<InvocationState, { kind: 'absent' }>,
  context: RequestContext,
): Promise<Begun> {
  requireGenuine(id, state, await keyRing.hashes(context.principal.tenant.id));
  if (!isOwn(state, reactorId, context))
    throw new ConflictError('conflict', 'The idempotency key belongs to another request.');
  return state;
}

/**
 * Whether this caller requested the invocation, and of this reactor. The id of another caller's request must not give
 * access to its result.
 */
function isOwn({ invoked, metadata }: Begun, reactorId: string, { metadata: own }: RequestContext): boolean {
  const isOfCaller = metadata.actor.kind === own.actor.kind && metadata.actor.id === own.actor.id;
  return isOfCaller && metadata.application_id === own.application_id && invoked.reactor_id === reactorId;
}
