/** As for `tokens`: the columns of the read model `proxies`. */
export const proxyTables = {
  proxy: {
    id: 'uuid not null',
    tenant_id: 'uuid not null',
    name: 'text not null',
    destination: 'text not null',
    destinations: 'jsonb not null',
    request_code: 'text',
    response_code: 'text',
    require_auth: 'boolean not null',
    configuration: 'text not null',
    application_id: 'uuid',
    keys: 'jsonb not null',
    signature: 'text not null',
    created_by: 'text not null',
    created_at: 'timestamptz not null',
    modified_by: 'text',
    modified_at: 'timestamptz',
    seq: 'bigint not null',
  },
} as const;
