import type { Projection, Row, SqlOp } from '../projection.ts';
import { tableOf, authorOf, type TokenContent } from '@token-vault/contracts';
import { countTokens } from './token-count.ts';

const asText = (value: unknown): string | null => (value === undefined ? null : JSON.stringify(value));

/** The columns of the token's present content. */
function contentColumns(content: TokenContent): Row {
  return {
    data: content.data,
    cvc: content.cvc ?? null,
    cvc_expires_at: content.cvc_expires_at ?? null,
    mask: asText(content.mask),
    container: content.containers[0] ?? '/',
    metadata: asText(content.metadata),
    search_indexes: asText(content.search_indexes),
    fingerprint: content.fingerprint ?? null,
    fingerprint_expression: content.fingerprint_expression ?? null,
    expires_at: content.expires_at ?? null,
    expires_at_text: content.expires_at ?? null,
    set_without_sight: asText(content.set_without_sight),
    signature: content.signature ?? null,
    index_signature: content.index_signature ?? null,
  };
}

function lookups(tenantId: string, tokenId: string, content: TokenContent): SqlOp[] {
  const owner = { tenant_id: tenantId, token_id: tokenId };
  const ops: SqlOp[] = [];
  for (const [key, value] of Object.entries(content.metadata ?? {})) {
    ops.push({ kind: 'insert', table: 'token_metadata', row: { ...owner, key, value: value.toLowerCase() } });
  }
  for (const hash of new Set(content.index_hashes)) {
    ops.push({ kind: 'insert', table: 'token_search_index', row: { ...owner, hash } });
  }
  return ops;
}

const withoutLookups = (tenantId: string, tokenId: string): SqlOp[] =>
  ['token_metadata', 'token_search_index'].map((table) => ({
    kind: 'delete',
    table,
    key: { tenant_id: tenantId, token_id: tokenId },
  }));

const removal = (tenantId: string, tokenId: string): SqlOp[] => [
  { kind: 'delete', table: 'token', key: { tenant_id: tenantId, id: tokenId } },
  ...withoutLookups(tenantId, tokenId),
];

/** Sealed tokens, the values they are found by, and the number of tokens of each container and type. */
export const tokens: Projection<'tokens'> = {
  name: 'tokens',
  version: 6,
  tables: [
    {
      ...tableOf('tokens', 'token'),
      primaryKey: ['tenant_id', 'id'],
      sealedColumns: ['data', 'cvc'],
      indexes: [
        // Lists are answered in the order of the first three, backwards. A new token sorts after those of its tenant. If it sorted before
        // them, each index page would be split into two half-empty pages. The indexes include the other columns that a list filters by,
        // so that deep pages are counted in the index alone.
        {
          on: '(tenant_id, seq, ordinal, id) include (type, container, expires_at)',
          isForReaders: true,
        },
        {
          on: '(tenant_id, container, seq, ordinal, id) include (type, expires_at)',
          isForReaders: true,
        },
        {
          on: '(tenant_id, type, seq, ordinal, id) include (container, expires_at)',
          isForReaders: true,
        },
        { on: '(tenant_id, created_at)', isForReaders: true },
        { on: '(tenant_id, fingerprint) where fingerprint is not null', isForReaders: true },
        { on: '(expires_at) where expires_at is not null', isForReaders: true },
        { on: '(cvc_expires_at) where cvc is not null', isForReaders: true },
      ],
    },
    {
      ...tableOf('tokens', 'token_metadata'),
      primaryKey: ['tenant_id', 'token_id', 'key'],
      addressedBy: ['tenant_id', 'token_id'],
      // The value is hashed, because 1,000 characters may exceed the size of an index row. A query must give both
      // `md5(value)` and `value`.
      indexes: [{ on: '(tenant_id, key, md5(value), token_id)', isForReaders: true }],
    },
    {
      ...tableOf('tokens', 'token_search_index'),
      primaryKey: ['tenant_id', 'token_id', 'hash'],
      addressedBy: ['tenant_id', 'token_id'],
      indexes: [{ on: '(tenant_id, hash, token_id)', isForReaders: true }],
    },
    {
      ...tableOf('tokens', 'token_count'),
      primaryKey: ['tenant_id', 'container', 'type'],
    },
  ],
  ddl: countTokens,
  on: {
    TokenCreated: ({ data, metadata, position, ordinal }) => [
      {
        kind: 'insert',
        table: 'token',
        row: {
          tenant_id: metadata.tenant_id,
          id: data.token_id,
          type: data.token_type,
          ...contentColumns(data),
          created_by: authorOf(metadata),
          created_at: metadata.occurred_at,
          seq: position,
          ordinal,
        },
      },
      ...lookups(metadata.tenant_id, data.token_id, data),
    ],
    TokenUpdated: ({ data, metadata }) => [
      {
        kind: 'update',
        table: 'token',
        key: { tenant_id: metadata.tenant_id, id: data.token_id },
        set: {
          ...contentColumns(data),
          modified_by: authorOf(metadata),
          modified_at: metadata.occurred_at,
        },
      },
      ...withoutLookups(metadata.tenant_id, data.token_id),
      ...lookups(metadata.tenant_id, data.token_id, data),
    ],
    TokenSigned: ({ data, metadata }) => [
      {
        kind: 'update',
        table: 'token',
        key: { tenant_id: metadata.tenant_id, id: data.token_id },
        set: { signature: data.signature },
      },
    ],
    TokenDeleted: ({ data, metadata }) => removal(metadata.tenant_id, data.token_id),
    TokenExpired: ({ data, metadata }) => removal(metadata.tenant_id, data.token_id),
    TokenCvcPurged: ({ data, metadata }) => [
      {
        kind: 'update',
        table: 'token',
        key: { tenant_id: metadata.tenant_id, id: data.token_id },
        set: { cvc: null, cvc_expires_at: null, signature: data.signature ?? null },
      },
    ],
    TenantDeleted: ({ data: { tenant_id } }) =>
      ['token', 'token_metadata', 'token_search_index'].map((table) => ({
        kind: 'sweep',
        table,
        where: { tenant_id },
      })),
  },
};
