import { tableOf, authorOf, type DataOf } from '@token-vault/contracts';
import type { Projection, Row } from '../projection.ts';

const contentColumns = (data: DataOf<'ReactorCreated'>): Row => ({
  name: data.name,
  code: data.code,
  configuration: data.configuration,
  application_id: data.application_id ?? null,
  signature: data.signature ?? null,
});

export const reactors: Projection<'reactors'> = {
  name: 'reactors',
  version: 4,
  tables: [
    {
      ...tableOf('reactors', 'reactor'),
      primaryKey: ['id'],
      sealedColumns: ['configuration'],
      indexes: [{ on: '(tenant_id, seq desc, id)' }],
    },
  ],
  on: {
    ReactorCreated: ({ data, metadata, position }) => [
      {
        kind: 'insert',
        table: 'reactor',
        row: {
          id: data.reactor_id,
          tenant_id: metadata.tenant_id,
          ...contentColumns(data),
          created_by: authorOf(metadata),
          created_at: metadata.occurred_at,
          seq: position,
        },
      },
    ],
    ReactorUpdated: ({ data, metadata }) => [
      {
        kind: 'update',
        table: 'reactor',
        key: { id: data.reactor_id },
        set: {
          ...contentColumns(data),
          modified_by: authorOf(metadata),
          modified_at: metadata.occurred_at,
        },
      },
    ],
    ReactorSigned: ({ data }) => [
      {
        kind: 'update',
        table: 'reactor',
        key: { id: data.reactor_id },
        set: { signature: data.signature },
      },
    ],
    ReactorDeleted: ({ data }) => [{ kind: 'delete', table: 'reactor', key: { id: data.reactor_id } }],
    TenantDeleted: ({ data: { tenant_id } }) => [{ kind: 'sweep', table: 'reactor', where: { tenant_id } }],
  },
};
