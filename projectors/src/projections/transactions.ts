import { tableOf, authorOf } from '@token-vault/contracts';
import type { Projection, SqlOp } from '../projection.ts';

const end = (transactionId: string, status: string): SqlOp[] => [
  { kind: 'update', table: 'transaction', key: { id: transactionId }, set: { status } },
];

/** Open transactions, and the outcome of ended ones. */
export const transactions: Projection<'transactions'> = {
  name: 'transactions',
  version: 3,
  tables: [
    {
      ...tableOf('transactions', 'transaction'),
      primaryKey: ['id'],
      indexes: [{ on: '(tenant_id)' }, { on: `(expires_at) where status = 'open'` }],
    },
  ],
  on: {
    TransactionOpened: ({ data, metadata }) => [
      {
        kind: 'insert',
        table: 'transaction',
        row: {
          id: data.transaction_id,
          tenant_id: metadata.tenant_id,
          status: 'open',
          created_by: authorOf(metadata),
          created_at: metadata.occurred_at,
          expires_at: data.expires_at,
        },
      },
    ],
    TransactionCommitted: ({ data }) => end(data.transaction_id, 'committed'),
    TransactionRolledBack: ({ data }) => end(data.transaction_id, 'rolled_back'),
    TransactionExpired: ({ data }) => end(data.transaction_id, 'expired'),
    TenantDeleted: ({ data: { tenant_id } }) => [
      { kind: 'sweep', table: 'transaction', where: { tenant_id } },
    ],
  },
};
