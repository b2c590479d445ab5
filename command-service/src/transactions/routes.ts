import type { Handlers } from '@token-vault/operations';
import type { Transactions } from './handlers.ts';

export function transactionRoutes(transactions: Transactions) {
  return {
    async createTransaction(_input, context) {
      const { transaction, position } = await transactions.open(context);
      return { body: transaction, position };
    },
    async commitTransaction({ params }, context) {
      return { position: await transactions.commit(params.id, context) };
    },
    async rollbackTransaction({ params }, context) {
      return { position: await transactions.rollback(params.id, context) };
    },
  } satisfies Handlers;
}
