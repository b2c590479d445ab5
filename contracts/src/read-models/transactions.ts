/** The columns of the read model `transactions`, with SQL types and constraints. Raise the version of the projection when they change. */
export const transactionTables = {
  transaction: {
    id: 'uuid not null',
    tenant_id: 'uuid not null',
    status: 'text not null',
    created_by: 'text not null',
    created_at: 'timestamptz not null',
    expires_at: 'timestamptz not null',
  },
} as const;
