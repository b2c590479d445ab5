/** The columns of the read model `reactors`, with SQL types and constraints. Raise the version of the projection when they change. */
export const reactorTables = {
  reactor: {
    id: 'uuid not null',
    tenant_id: 'uuid not null',
    name: 'text not null',
    code: 'text not null',
    configuration: 'text not null',
    application_id: 'uuid',
    signature: 'text',
    created_by: 'text not null',
    created_at: 'timestamptz not null',
    modified_by: 'text',
    modified_at: 'timestamptz',
    seq: 'bigint not null',
  },
} as const;
