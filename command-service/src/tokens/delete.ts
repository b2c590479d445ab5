import { ConflictError, streams } from '@token-vault/contracts';
import type { Position } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/operations';
import type { TokenDetails } from '@token-vault/tokens';
import { expectedAt, retryOnConflict } from '../aggregates/decider.ts';
import { requirePresent, tokenDecider } from './decider.ts';
import type { TokenDependencies } from './dependencies.ts';
import { requireAccess } from './drafts.ts';
import { eventsOf } from './enlistment.ts';
import { readTokenHistory } from './history.ts';

/**
 * Deletes a token. The event is durable first, then the keys of the token are destroyed, and the answer comes last.
 * In a transaction the keys live until its commit. A fingerprint claim of a deleted token is void; the next writer
 * that reads the claim removes it.
 * @throws NotFoundError, ForbiddenError, ConflictError
 */
export async function deleteToken(
  dependencies: TokenDependencies,
  id: string,
  context: RequestContext,
): Promise<Position> {
  await dependencies.enlistment.check(context);
  const position = await appendDeletion(dependencies, id, context, ({ type, content }) =>
    requireAccess(context, 'token:delete', { id, type, containers: content.containers }),
  );
  return position;
}

/** @throws the errors of `authorize`, which gets the present token */
export async function appendDeletion(
  { store, outcomes, enlistment, erasure }: TokenDependencies,
  id: string,
  context: RequestContext,
  authorize: (token: TokenDetails) => unknown,
): Promise<Position> {
  const tenantId = context.principal.tenant.id;
  const { facts, position } = await retryOnConflict(async () => {
    const history = await readTokenHistory({ store, outcomes }, tenantId, id, context);
    authorize(requirePresent(history.state, context.now));
    if (history.lockedBy !== undefined) {
      throw new ConflictError('token_locked', 'The token is locked by an open transaction.');
    }
    const facts = tokenDecider.decide(history.state, { kind: 'delete', now: context.now });
    const { revision } = history;
    await enlistment.begin(context, { tokenId: id, write: 'delete', revision, newKeyIds: [], facts });
    const events = eventsOf(context, facts, history);
    const { position } = await store.append(streams.token(tenantId, id), events, expectedAt(revision));
    return { facts, position };
  });
  await enlistment.confirm(context, [], position);
  if (context.transactionId === undefined) await erasure.carryOut(tenantId, id, facts);
  return position;
}
