/** The columns of the read model `tenants`, with SQL types and constraints. Raise the version of the projection when they change. */
export const tenantTables = {
  tenant: {
    id: 'uuid not null',
    name: 'text not null',
    plan: 'text not null',
    settings: 'jsonb not null',
    webhook_secret: 'text',
    accepts_unsigned: 'boolean not null',
    signature: 'text',
    is_deleted: 'boolean not null',
    created_at: 'timestamptz not null',
    modified_at: 'timestamptz',
    modified_by: 'text',
  },
} as const;
