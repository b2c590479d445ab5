import { ConflictError, streams } from '@token-vault/contracts';
import type { Position } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/service-kit';
import { expectedAt, retryOnConflict } from '../aggregates/decider.ts';
import { requirePresent, tokenDecider } from './decider.ts';
import type { TokenDependencies } from './dependencies.ts';
import { requireAccess } from './drafts.ts';
import type { TokenErasure } from './erasure.ts';
import { readTokenHistory } from './history.ts';

/**
 * Deletes a token: the decision is durable first, then its keys are destroyed, both before the answer. In a transaction the
 * keys live until its commit. @throws NotFoundError, ForbiddenError, ConflictError
 */
export async function deleteToken(
  dependencies: TokenDependencies,
  erasure: TokenErasure,
  id: string,
  context: RequestContext,
): Promise<Position> {
  const { store, outcomes, enlistment, claims } = dependencies;
  const tenantId = context.principal.tenant.id;
  const { position, details } = await retryOnConflict(async () => {
    const history = await readTokenHistory(store, outcomes, tenantId, id, context.transactionId);
    const present = requirePresent(history.state, context.now);
    requireAccess(context, 'token:delete', { id, containers: present.content.containers });
    if (history.lockedBy !== undefined) {
      throw new ConflictError('token_locked', 'The token is locked by an open transaction.');
    }
    await enlistment.begin(context, id);
    const facts = tokenDecider.decide(history.state, { kind: 'delete', now: context.now });
    const events = facts.map((each) => context.event(each, each.data));
    const appended = await store.append(streams.token(tenantId, id), events, expectedAt(history.revision));
    return { position: appended.position, details: present };
  });
  await enlistment.confirm(context, position);
  if (context.transactionId === undefined) {
    await erasure.eraseUnneeded(tenantId, id);
    const { fingerprint } = details.content;
    if (fingerprint !== undefined) await claims.release(context, fingerprint, id);
  }
  return position;
}
