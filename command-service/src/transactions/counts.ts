import { ConflictError, streams, TransactionCounted } from '@token-vault/contracts';
import { noRevision, type EventStore } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/service-kit';
import { expectedAt, retryOnConflict } from '../aggregates/decider.ts';
import { outsideTransaction } from './context.ts';
import type { TransactionOutcomes } from './outcomes.ts';

/** Most transactions that an application has open. Those that the vault opens for a tokenize request do not count. */
export const maxOpenTransactions = 20;

/**
 * How many transactions an application has open, by a stream of its own. Each event names all that were open, so that the last one
 * tells everything.
 */
export interface TransactionCounts {
  /** @throws ConflictError when the application has as many open as it may. */
  refuseTooMany(context: RequestContext): Promise<void>;
  /** Counts one that was opened. @throws as `refuseTooMany`; then it is not counted. */
  add(context: RequestContext, transactionId: string): Promise<void>;
}

export function createTransactionCounts(
  store: EventStore,
  outcomes: Pick<TransactionOutcomes, 'stateOf'>,
): TransactionCounts {
  async function read({ principal }: RequestContext) {
    const tenantId = principal.tenant.id;
    const stream = streams.transactionsOf(tenantId, principal.applicationId);
    let counted: readonly string[] = [];
    let revision = noRevision;
    for await (const event of store.readStream(stream, { backwards: true, maxCount: 1 })) {
      if (event.type === 'TransactionCounted') counted = event.data.open;
      revision = event.revision;
    }
    const states = await Promise.all(counted.map((id) => outcomes.stateOf(tenantId, id)));
    const open = counted.filter((_id, index) => states[index]?.kind === 'open');
    if (open.length >= maxOpenTransactions) {
      const detail = `An application has at most ${maxOpenTransactions} transactions open. End one of them.`;
      throw new ConflictError('too_many_transactions', detail);
    }
    return { stream, open, revision };
  }

  return {
    async refuseTooMany(context) {
      await read(context);
    },

    add: (context, transactionId) =>
      retryOnConflict(async () => {
        const { stream, open, revision } = await read(context);
        const application_id = context.principal.applicationId;
        const data = { application_id, open: [...open, transactionId] };
        const event = outsideTransaction(context).event(TransactionCounted, data);
        await store.append(stream, [event], expectedAt(revision));
      }),
  };
}
