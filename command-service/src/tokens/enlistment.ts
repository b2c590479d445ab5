import { ConflictError, streams, TransactionTokenEnlisted } from '@token-vault/contracts';
import type { EventStore, Position } from '@token-vault/event-store';
import { comparePositions } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/service-kit';
import { outsideTransaction } from '../transactions/context.ts';
import { requireOpen } from '../transactions/decider.ts';
import type { TransactionOutcomes } from '../transactions/outcomes.ts';
import type { TokenErasure } from './erasure.ts';

/** What a write does around its append when it takes part in a transaction; nothing otherwise. */
export interface Enlistment {
  /**
   * Before anything else: the uncommitted work of a transaction is its owner's alone.
   * @throws NotFoundError, ConflictError when the transaction is not the caller's or not open.
   */
  check(context: RequestContext): Promise<void>;
  /** Before the append: from here on the end of the transaction sees to the token's keys. @throws as `check` */
  begin(context: RequestContext, tokenId: string): Promise<void>;
  /**
   * After the append. @throws ConflictError when the transaction ended before it: then it does not count, and the keys it
   * brought are destroyed.
   */
  confirm(context: RequestContext, tokenId: string, position: Position): Promise<void>;
}

export function createEnlistment(
  store: EventStore,
  outcomes: TransactionOutcomes,
  erasure: TokenErasure,
): Enlistment {
  async function check(context: RequestContext): Promise<void> {
    const { transactionId, principal } = context;
    if (transactionId === undefined) return;
    const state = await outcomes.stateOf(principal.tenant.id, transactionId);
    requireOpen(state, principal.actor.id, context.now);
  }

  return {
    check,

    async begin(context, tokenId) {
      const { transactionId, principal } = context;
      if (transactionId === undefined) return;
      await check(context);
      const data = { transaction_id: transactionId, token_id: tokenId };
      const stream = streams.transaction(principal.tenant.id, transactionId);
      await store.append(
        stream,
        [outsideTransaction(context).event(TransactionTokenEnlisted, data)],
        'exists',
      );
    },

    async confirm(context, tokenId, position) {
      const { transactionId, principal } = context;
      if (transactionId === undefined) return;
      const state = await outcomes.stateOf(principal.tenant.id, transactionId);
      if (state.kind === 'open') return;
      if (state.kind === 'committed' && comparePositions(position, state.position) < 0) return;
      await erasure.eraseUnneeded(principal.tenant.id, tokenId);
      throw new ConflictError('transaction_not_open', 'The transaction ended before this write.');
    },
  };
}
