import {
  ConflictError,
  invocationPlace,
  NotFoundError,
  sealedOutcome,
  streams,
  WebhookRedeliveryRequested,
} from '@token-vault/contracts';
import { KeyDestroyedError, type KeyRing, type SealedValue } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import type { Answer, RequestContext } from '@token-vault/operations';
import { loadInvocation, requireGenuine, type OutcomeEvent } from './state.ts';

const notKept = 'Its result is no longer kept.';

async function isDelivered(store: Pick<EventStore, 'readStream'>, stream: string): Promise<boolean> {
  for await (const { type } of store.readStream(stream, { backwards: true }))
    if (type === 'WebhookDelivered') return true;
  return false;
}

/**
 * Wants the result of an asynchronous invocation delivered now: before its next attempt is due, or after the last one
 * failed. Whether the invoker may still have it is decided by the delivery, as at each attempt.
 * @throws NotFoundError; ConflictError when there is no result that could be delivered
 */
export async function redeliver(
  { store, keyRing }: { readonly store: EventStore; readonly keyRing: KeyRing },
  invocationId: string,
  context: RequestContext,
): Promise<Answer> {
  const { id: tenantId } = context.principal.tenant;
  const stream = streams.invocation(tenantId, invocationId);
  const { state, revision } = await loadInvocation(store, stream);
  if (state.kind === 'absent') throw new NotFoundError('Invocation');
  requireGenuine(invocationId, state, await keyRing.hashes(tenantId));
  const { reactor_id, mode } = state.invoked;
  if (mode === 'sync') throw new ConflictError('conflict', 'The invocation was not asynchronous.');
  if (state.kind !== 'over') throw new ConflictError('conflict', 'The run is not over.');
  if (await isDelivered(store, stream))
    throw new ConflictError('conflict', `The result was delivered. ${notKept}`);
  await requireKept(keyRing, tenantId, invocationId, state.outcome);
  const event = context.event(WebhookRedeliveryRequested, { invocation_id: invocationId, reactor_id });
  const { position } = await store.append(stream, [event], revision);
  return { position };
}

/** @throws ConflictError when the key of the result has ended */
async function requireKept(
  keyRing: Pick<KeyRing, 'open'>,
  tenantId: string,
  invocationId: string,
  outcome: OutcomeEvent,
): Promise<void> {
  const { sealed, field } = sealedOutcome(outcome);
  try {
    await keyRing.open(invocationPlace(tenantId, invocationId, field), sealed as SealedValue);
  } catch (error) {
    if (error instanceof KeyDestroyedError) throw new ConflictError('conflict', notKept);
    throw error;
  }
}
