import { tableOf, authorOf, type DataOf, type EventMetadata } from '@token-vault/contracts';
import type { Projection, Row, SqlOp } from '../projection.ts';

const contentColumns = (data: DataOf<'ProxyCreated'>): Row => ({
  name: data.name,
  destination: data.destination,
  destinations: data.destinations,
  request_code: data.request_code ?? null,
  response_code: data.response_code ?? null,
  require_auth: data.require_auth,
  configuration: data.configuration,
  application_id: data.application_id ?? null,
  signature: data.signature,
});

const changed = (id: string, metadata: EventMetadata, set: Row): SqlOp[] => [
  {
    kind: 'update',
    table: 'proxy',
    key: { id },
    set: { ...set, modified_by: authorOf(metadata), modified_at: metadata.occurred_at },
  },
];

const keysChanged = ({
  data,
  metadata,
}: {
  readonly data: DataOf<'ProxyKeyAdded'>;
  readonly metadata: EventMetadata;
}): SqlOp[] => changed(data.proxy_id, metadata, { keys: data.keys, signature: data.signature });

/**
 * Proxies for `GET /proxies`. A request through a proxy uses only the tenant of the row: the settings and keys of the proxy are read from the
 * log (ADR 30).
 */
export const proxies: Projection<'proxies'> = {
  name: 'proxies',
  version: 1,
  tables: [
    {
      ...tableOf('proxies', 'proxy'),
      primaryKey: ['id'],
      sealedColumns: ['configuration'],
      indexes: [{ on: '(tenant_id, seq desc, id)' }],
    },
  ],
  on: {
    ProxyCreated: ({ data, metadata, position }) => [
      {
        kind: 'insert',
        table: 'proxy',
        row: {
          id: data.proxy_id,
          tenant_id: metadata.tenant_id,
          ...contentColumns(data),
          keys: [],
          created_by: authorOf(metadata),
          created_at: metadata.occurred_at,
          seq: position,
        },
      },
    ],
    ProxyUpdated: ({ data, metadata }) => changed(data.proxy_id, metadata, contentColumns(data)),
    ProxyKeyAdded: keysChanged,
    ProxyKeyDeleted: keysChanged,
    ProxyDeleted: ({ data }) => [{ kind: 'delete', table: 'proxy', key: { id: data.proxy_id } }],
    TenantDeleted: ({ data: { tenant_id } }) => [{ kind: 'sweep', table: 'proxy', where: { tenant_id } }],
  },
};
