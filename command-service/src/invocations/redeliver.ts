import { ConflictError, invocationPlace, sealedOutcome, streams } from '@token-vault/contracts';
import { KeyDestroyedError, type KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import type { Answer, RequestContext } from '@token-vault/operations';
import { execute } from '../aggregates/decider.ts';
import { invocationDecider, requireDeliverable } from './decider.ts';
import { requireGenuine, type OutcomeEvent } from './state.ts';

/**
 * Requests the delivery of the result of an asynchronous invocation now: before its next attempt is due, or after the last one failed. The
 * delivery decides, as each attempt does, whether the invoker may still get the result.
 * @throws NotFoundError; ConflictError when there is no result that could be delivered
 */
export async function redeliver(
  { store, keyRing }: { readonly store: EventStore; readonly keyRing: KeyRing },
  id: string,
  context: RequestContext,
): Promise<Answer> {
  const { id: tenantId } = context.principal.tenant;
  const { position } = await execute({
    store,
    stream: streams.invocation(tenantId, id),
    decider: invocationDecider,
    async command(state) {
      requireGenuine(id, state, await keyRing.hashes(tenantId));
      await requireKept(keyRing, tenantId, id, requireDeliverable(state));
      return { kind: 'redeliver' as const };
    },
    event: context.event.bind(context),
  });
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
    await keyRing.open(invocationPlace(tenantId, invocationId, field), sealed);
  } catch (error) {
    if (error instanceof KeyDestroyedError)
      throw new ConflictError('conflict', 'Its result is no longer kept.');
    throw error;
  }
}
