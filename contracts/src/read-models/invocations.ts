const due = { id: 'uuid not null', tenant_id: 'uuid not null' } as const;

/** As for `tokens`: the columns of the read model `invocations`. */
export const invocationTables = {
  /** `application_id`: the application, with its sessions, whose turn the run takes among those of its tenant. */
  waiting: { ...due, application_id: 'text not null', invoked_at: 'timestamptz not null' },
  running: { ...due, deadline: 'timestamptz not null' },
  delivery: { ...due, next_at: 'timestamptz not null' },
} as const;
