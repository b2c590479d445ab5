import { tableOf, authorOf } from '@token-vault/contracts';
import type { Projection } from '../projection.ts';
import { accessChangesOf } from './access-changes.ts';

export const tenants: Projection<'tenants'> = {
  name: 'tenants',
  version: 4,
  tables: [
    {
      ...tableOf('tenants', 'tenant'),
      primaryKey: ['id'],
      sealedColumns: ['webhook_secret'],
    },
  ],
  ddl: accessChangesOf(['tenant']),
  on: {
    TenantCreated: ({ data, metadata }) => [
      {
        kind: 'insert',
        table: 'tenant',
        row: {
          id: data.tenant_id,
          name: data.name,
          plan: data.plan,
          settings: data.settings,
          accepts_unsigned: false,
          signature: data.signature,
          is_deleted: false,
          created_at: metadata.occurred_at,
        },
      },
    ],
    TenantUpdated: ({ data, metadata }) => [
      {
        kind: 'update',
        table: 'tenant',
        key: { id: data.tenant_id },
        set: {
          name: data.name,
          settings: data.settings,
          signature: data.signature ?? null,
          modified_at: metadata.occurred_at,
          modified_by: authorOf(metadata),
        },
      },
    ],
    TenantPlanChanged: ({ data, metadata }) => [
      {
        kind: 'update',
        table: 'tenant',
        key: { id: data.tenant_id },
        set: {
          plan: data.plan,
          signature: data.signature ?? null,
          modified_at: metadata.occurred_at,
          modified_by: authorOf(metadata),
        },
      },
    ],
    TenantWebhookSecretRotated: ({ data }) => [
      { kind: 'update', table: 'tenant', key: { id: data.tenant_id }, set: { webhook_secret: data.secret } },
    ],
    TenantSigned: ({ data }) => [
      {
        kind: 'update',
        table: 'tenant',
        key: { id: data.tenant_id },
        set: { accepts_unsigned: data.accepts_unsigned, signature: data.signature },
      },
    ],
    // The row stays, so that the tenant is known as deleted. The secret and the settings are removed.
    TenantDeleted: ({ data, metadata }) => [
      {
        kind: 'update',
        table: 'tenant',
        key: { id: data.tenant_id },
        set: {
          is_deleted: true,
          settings: {},
          webhook_secret: null,
          modified_at: metadata.occurred_at,
          modified_by: authorOf(metadata),
        },
      },
    ],
  },
};
