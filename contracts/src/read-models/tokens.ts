/** The columns of the read model `tokens`, with SQL types and constraints. Raise the version of the projection when they change. */
export const tokenTables = {
  token: {
    tenant_id: 'uuid not null',
    id: 'text collate "C" not null',
    type: 'text collate "C" not null',
    data: 'text not null',
    cvc: 'text',
    cvc_expires_at: 'timestamptz',
    mask: 'text',
    container: 'text collate "C" not null',
    metadata: 'text',
    search_indexes: 'text',
    fingerprint: 'text collate "C"',
    fingerprint_expression: 'text',
    expires_at: 'timestamptz',
    expires_at_text: 'text',
    created_by: 'text not null',
    created_at: 'timestamptz not null',
    modified_by: 'text',
    modified_at: 'timestamptz',
    // Signed with the rest.
    set_without_sight: 'text',
    signature: 'text',
    // Of the rows in `token_search_index`.
    index_signature: 'text',
    seq: 'bigint not null',
    // The order among the changes of one transaction, which share `seq`.
    ordinal: 'integer not null',
  },
  token_metadata: {
    tenant_id: 'uuid not null',
    token_id: 'text collate "C" not null',
    key: 'text collate "C" not null',
    value: 'text collate "C" not null',
  },
  token_search_index: {
    tenant_id: 'uuid not null',
    token_id: 'text collate "C" not null',
    hash: 'text collate "C" not null',
  },
  token_count: {
    tenant_id: 'uuid not null',
    container: 'text collate "C" not null',
    type: 'text collate "C" not null',
    count: 'bigint not null',
  },
} as const;
