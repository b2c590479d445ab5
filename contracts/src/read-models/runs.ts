/** The columns of the read model `runs`, with SQL types and constraints. Raise the version of the projection when they change. */
export const runTables = {
  run: {
    id: 'uuid not null',
    tenant_id: 'uuid not null',
    reactor_id: 'uuid not null',
    mode: 'text not null',
    state: 'text not null',
    invoked_by: 'text not null',
    invoked_at: 'timestamptz not null',
    started_at: 'timestamptz',
    ended_at: 'timestamptz',
    status: 'integer',
    reason: 'text',
    delivery: 'text',
    next_at: 'timestamptz',
    seq: 'bigint not null',
  },
  attempt: {
    run_id: 'uuid not null',
    number: 'integer not null',
    tenant_id: 'uuid not null',
    attempted_at: 'timestamptz not null',
    reason: 'text',
  },
} as const;
