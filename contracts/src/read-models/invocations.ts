const due = { id: 'uuid not null', tenant_id: 'uuid not null' } as const;

/** As for `tokens`: the columns of the read model `invocations`. */
export const invocationTables = {
  /** `application_id`: the application, with its sessions, whose turn the run takes among those of its tenant. */
  waiting: { ...due, application_id: 'text not null', invoked_at: 'timestamptz not null' },
  running: { ...due, deadline: 'timestamptz not null' },
  /** Of each asynchronous invocation until its result is delivered. `next_at`: null until there is one. `application_id`: as above. */
  delivery: { ...due, application_id: 'text not null', next_at: 'timestamptz' },
} as const;
