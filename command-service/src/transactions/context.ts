import type { RequestContext } from '@token-vault/operations';

/** The request within a transaction: its events take effect with the commit. */
export function withinTransaction(context: RequestContext, transactionId: string): RequestContext {
  const metadata = { ...context.metadata, transaction_id: transactionId };
  return withMetadata({ ...context, transactionId, metadata }, context);
}

/**
 * The request outside its transaction, for events that take effect at once. Claims and enlistments coordinate
 * writers, and a read has happened even if the transaction is rolled back.
 */
export function outsideTransaction(context: RequestContext): RequestContext {
  if (context.transactionId === undefined) return context;
  const { transaction_id: _transaction, ...metadata } = context.metadata;
  return withMetadata({ ...context, transactionId: undefined, metadata }, context);
}

function withMetadata(changed: RequestContext, original: RequestContext): RequestContext {
  const { metadata } = changed;
  return {
    ...changed,
    event: (definition, data, id) => ({ ...original.event(definition, data, id), metadata }),
  };
}
