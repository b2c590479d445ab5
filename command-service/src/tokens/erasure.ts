import type { KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import { answerEntityOfToken } from '@token-vault/service-kit';
import type { TransactionOutcomes } from '../transactions/outcomes.ts';
import { keyIdsOf } from './decider.ts';
import { readTokenHistory } from './history.ts';

export interface TokenErasure {
  /**
   * Destroys every data key that the token's events name and that neither its committed state nor an open transaction needs.
   * With a token that is no more go its stored idempotent answers (decisions.md §2). Safe to repeat: what the log has decided is
   * carried out, never more.
   */
  eraseUnneeded(tenantId: string, tokenId: string): Promise<void>;
}

export function createTokenErasure(options: {
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  readonly outcomes: TransactionOutcomes;
}): TokenErasure {
  const { store, keyRing, outcomes } = options;
  return {
    async eraseUnneeded(tenantId, tokenId) {
      const history = await readTokenHistory(store, outcomes, tenantId, tokenId);
      const committed = history.state.kind === 'present' ? keyIdsOf(history.state.details.content) : [];
      const needed = new Set([...committed, ...history.pendingKeyIds]);
      const unneeded = [...history.keyIds].filter((id) => !needed.has(id));
      const isEnded = history.state.kind !== 'present' && !history.isPending;
      await Promise.all([
        unneeded.length > 0 ? keyRing.destroyKeys(tenantId, unneeded) : undefined,
        isEnded ? keyRing.destroyKeysOfEntity(tenantId, answerEntityOfToken(tokenId)) : undefined,
      ]);
    },
  };
}
