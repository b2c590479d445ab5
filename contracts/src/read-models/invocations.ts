const due = { id: 'uuid not null', tenant_id: 'uuid not null' } as const;

/** As for `tokens`: the columns of the read model `invocations`. */
export const invocationTables = {
  waiting: { ...due, invoked_at: 'timestamptz not null' },
  running: { ...due, deadline: 'timestamptz not null' },
  delivery: { ...due, next_at: 'timestamptz not null' },
} as const;
