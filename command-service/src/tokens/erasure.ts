import type { KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import type { TransactionOutcomes } from '../transactions/outcomes.ts';
import { keyIdsOf } from './decider.ts';
import { readTokenHistory } from './history.ts';

export interface TokenErasure {
  /**
   * Destroys every data key that the token's events name and its committed state no longer needs. Safe to repeat: what the
   * log has decided is carried out, never more. While a transaction holds the token nothing is destroyed.
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
      const { state, lockedBy, keyIds } = await readTokenHistory(store, outcomes, tenantId, tokenId);
      if (lockedBy !== undefined) return;
      const needed = new Set(state.kind === 'present' ? keyIdsOf(state.details.content) : []);
      const unneeded = [...keyIds].filter((id) => !needed.has(id));
      if (unneeded.length > 0) await keyRing.destroyKeys(tenantId, unneeded);
    },
  };
}
