import { ConflictError, streams, TransactionCounted } from '@token-vault/contracts';
import { noRevision, type EventStore } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/operations';
import { change } from '../aggregates/decider.ts';
import { outsideTransaction } from './context.ts';
import type { TransactionOutcomes } from './outcomes.ts';

/**
 * The most transactions that an application may have open. Those that the vault opens for a tokenize request do not
 * count.
 */
const maxOpenTransactions = 20;

/**
 * The number of transactions that an application has open, in a stream of its own. Each event names all open ones, so
 * the last event is enough.
 */
export interface TransactionCounts {
  /** @throws ConflictError when the application has the largest number open. */
  refuseTooMany(context: RequestContext): Promise<void>;
  /** Counts a transaction that was opened. @throws as `refuseTooMany`; the transaction is then not counted. */
  add(context: RequestContext, transactionId: string): Promise<void>;
}

export function createTransactionCounts(
  store: EventStore,
  outcomes: Pick<TransactionOutcomes, 'endIfOver'>,
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
    const states = await Promise.all(counted.map((id) => outcomes.endIfOver(tenantId, id)));
    const open = counted.filter((_id, index) => states[index]?.kind === 'open');
    if (open.length >= maxOpenTransactions) {
      const detail = `An application has at most ${maxOpenTransactions} transactions open. End one of them.`;
      throw new ConflictError('too_many_transactions', detail);
    }
    return { open, revision };
  }

  return {
    async refuseTooMany(context) {
      await read(context);
    },

    async add(context, transactionId) {
      const application_id = context.principal.applicationId;
      await change({
        store,
        stream: streams.transactionsOf(context.principal.tenant.id, application_id),
        load: () => read(context),
        decide({ open }) {
          const data = { application_id, open: [...open, transactionId] };
          return { events: [outsideTransaction(context).event(TransactionCounted, data)] };
        },
      });
    },
  };
}
