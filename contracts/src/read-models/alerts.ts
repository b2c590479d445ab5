/** The columns of the read model `alerts`, with SQL types and constraints. Raise the version of the projection when they change. */
export const alertTables = {
  delivery: {
    id: 'uuid not null',
    tenant_id: 'uuid not null',
    /** The application, with its sessions, whose turn the webhook takes among those of its tenant. */
    application_id: 'text not null',
    next_at: 'timestamptz not null',
    content: 'jsonb not null',
  },
} as const;
