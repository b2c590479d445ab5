import {
  ForbiddenError,
  invocationPlace,
  type CodeOwner,
  type FoundEntity,
  type ParentRun,
} from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import { parsePosition } from '@token-vault/event-store';
import type { Invocation } from './invocation.ts';
import type { Asked } from './ports.ts';
import type { SeenTokens } from './seen-tokens.ts';

/** The invocation as a run that is decided. `seen`: the tokens and cvcs that its code has been given so far. */
export const runOf = (
  { invoked, metadata, position }: Invocation,
  { tokens: seen, isComplete, cvcEndsAt }: Pick<SeenTokens, 'tokens' | 'isComplete' | 'cvcEndsAt'>,
): ParentRun => ({
  actor: metadata.actor,
  authorizedBy: metadata.application_id,
  reason: metadata.reason,
  keyHash: invoked.key_hash,
  since: metadata.occurred_at,
  position: invoked.depth > 0 ? undefined : position,
  tokenIds: invoked.token_ids,
  owner: { reactorId: invoked.reactor_id, revision: invoked.reactor_revision },
  seen,
  isSeenComplete: isComplete,
  cvcEndsAt: cvcEndsAt?.toISOString(),
});

export const nothingSeen = { tokens: [], isComplete: true, cvcEndsAt: undefined };

/** A run that code asked for does not depend on a key of its application. Its parents depend on those of their callers. */
export const askedOf = ({ keyHash, position }: Pick<ParentRun, 'keyHash' | 'position'>): Asked => ({
  keyHash,
  position: position === undefined ? undefined : parsePosition(position),
});

/**
 * The runs that the invocation is nested in, the outermost first. Its code may have any data that theirs had.
 * @throws KeyDestroyedError when the invocation is too old
 */
export async function parentsOf(
  keyRing: Pick<KeyRing, 'open'>,
  { tenantId, id, invoked: { parents } }: Pick<Invocation, 'tenantId' | 'id' | 'invoked'>,
): Promise<readonly ParentRun[]> {
  if (parents === undefined) return [];
  return (await keyRing.open<ParentRun[]>(invocationPlace(tenantId, id, 'parents'), parents)).expose();
}

const codeOf = (owner: CodeOwner): FoundEntity =>
  'reactorId' in owner ? { type: 'reactor', id: owner.reactorId } : { type: 'proxy', id: owner.proxyId };

/** A refusal for a run. Where it does not say so itself, it is about the code of this run, and its caller lacks the right. */
export function refusalOfRun(
  { actor, authorizedBy, owner }: ParentRun,
  refusal: ForbiddenError,
): ForbiddenError {
  const { message, entity = codeOf(owner), lacking } = refusal;
  return new ForbiddenError(message, entity, lacking ?? { actor, authorizedBy, permission: 'token:use' });
}
