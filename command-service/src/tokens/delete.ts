import { ConflictError, type TokenIdentity } from '@token-vault/contracts';
import type { Position } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/operations';
import type { TokenDetails } from '@token-vault/tokens';
import { loadToken, writeToken } from './change.ts';
import { requirePresent, tokenDecider } from './decider.ts';
import type { TokenDependencies } from './dependencies.ts';
import { requireAccess } from './drafts.ts';

interface DeletedToken {
  readonly token: TokenIdentity;
  readonly position: Position | undefined;
}

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
): Promise<DeletedToken> {
  await dependencies.enlistment.check(context);
  return appendDeletion(dependencies, id, context, ({ type, content }) =>
    requireAccess(context, 'token:delete', { id, type, containers: content.containers }),
  );
}

/** @throws the errors of `authorize`, which gets the present token */
export async function appendDeletion(
  dependencies: TokenDependencies,
  id: string,
  context: RequestContext,
  authorize: (token: TokenDetails) => unknown,
): Promise<DeletedToken> {
  const tenantId = context.principal.tenant.id;
  const { decided, position } = await writeToken(dependencies, {
    tenantId,
    write: 'delete',
    load: () => loadToken(dependencies, id, context, context),
    decide({ state, lockedBy }) {
      const details = requirePresent(state, context.now);
      authorize(details);
      if (lockedBy !== undefined)
        throw new ConflictError('token_locked', 'The token is locked by an open transaction.');
      const facts = tokenDecider.decide(state, { kind: 'delete', now: context.now });
      return { facts, token: { id, createdAt: details.createdAt } };
    },
  });
  const { facts, token } = decided;
  if (context.transactionId === undefined) await dependencies.erasure.carryOut(tenantId, id, facts);
  return { token, position };
}
