import type { KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import type { Clock, RequestContext } from '@token-vault/operations';
import type { TokenDetails } from '@token-vault/tokens';
import { createTransactionOutcomes } from '../transactions/outcomes.ts';
import { readTokenHistory } from './history.ts';
import { requireSignedToken } from './signed.ts';
import { isExpired } from './state.ts';

export interface TokenFinderDependencies {
  readonly store: EventStore;
  readonly keyRing: Pick<KeyRing, 'hashes'>;
  readonly clock: Clock;
}

/**
 * Finds a token of the caller's tenant in the log, as it is now. Undefined when it is deleted, expired or unknown.
 * @throws AlteredRecordError
 */
export type FindToken = (tokenId: string, context: RequestContext) => Promise<TokenDetails | undefined>;

/** `seesOwn`: whether the uncommitted changes of the request's transaction count (rules.md §9). */
export function createTokenFinder(
  { store, keyRing, clock }: TokenFinderDependencies,
  { seesOwn = false }: { readonly seesOwn?: boolean } = {},
): FindToken {
  const outcomes = createTransactionOutcomes(store, clock);
  return async (tokenId, context) => {
    const { tenant } = context.principal;
    const reader = seesOwn ? context : undefined;
    const { state } = await readTokenHistory({ store, outcomes }, tenant.id, tokenId, reader);
    if (state.kind !== 'present' || isExpired(state.details, context.now)) return undefined;
    await requireSignedToken(keyRing, tenant, state.details);
    return state.details;
  };
}
