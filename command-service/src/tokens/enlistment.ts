import { ConflictError, streams, TransactionTokenEnlisted } from '@token-vault/contracts';
import type { EventStore, Position } from '@token-vault/event-store';
import { comparePositions } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/service-kit';
import { requireOpen } from '../transactions/decider.ts';
import type { TransactionOutcomes } from '../transactions/outcomes.ts';
import { withoutTransaction } from './fingerprint-claims.ts';

/** What a write does before and after it appends, when it takes part in a transaction; nothing otherwise. */
export interface Enlistment {
  /** @throws NotFoundError, ConflictError when the transaction is not the caller's or not open. */
  begin(context: RequestContext, tokenId: string): Promise<void>;
  /** @throws ConflictError when the transaction ended before the write: then the write does not count. */
  confirm(context: RequestContext, position: Position): Promise<void>;
}

export function createEnlistment(store: EventStore, outcomes: TransactionOutcomes): Enlistment {
  const tenantOf = (context: RequestContext): string => context.principal.tenant.id;
  return {
    async begin(context, tokenId) {
      const { transactionId } = context;
      if (transactionId === undefined) return;
      const state = await outcomes.stateOf(tenantOf(context), transactionId);
      requireOpen(state, context.principal.applicationId, context.now);
      const data = { transaction_id: transactionId, token_id: tokenId };
      const stream = streams.transaction(tenantOf(context), transactionId);
      await store.append(
        stream,
        [withoutTransaction(context.event(TransactionTokenEnlisted, data))],
        'exists',
      );
    },

    async confirm(context, position) {
      const { transactionId } = context;
      if (transactionId === undefined) return;
      const state = await outcomes.stateOf(tenantOf(context), transactionId);
      if (state.kind === 'open') return;
      if (state.kind === 'committed' && comparePositions(position, state.position) < 0) return;
      throw new ConflictError('transaction_not_open', 'The transaction ended before this write.');
    },
  };
}
