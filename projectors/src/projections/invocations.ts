import type { DataOf } from '@token-vault/contracts';
import type { Occurrence, Projection, SqlOp } from '../projection.ts';

/** The run is over; what was invoked asynchronously is to be delivered, from now on. */
const end = ({
  data,
  metadata,
}: Pick<Occurrence<'ReactorSucceeded' | 'ReactorFailed'>, 'metadata'> & {
  readonly data: Pick<DataOf<'ReactorFailed'>, 'invocation_id' | 'mode'>;
}): SqlOp[] => {
  const { invocation_id: id } = data;
  const isOver: SqlOp = { kind: 'delete', table: 'running', key: { id } };
  if (data.mode === 'sync') return [isOver];
  const { tenant_id, occurred_at: next_at } = metadata;
  return [isOver, { kind: 'insert', table: 'delivery', row: { id, tenant_id, next_at } }];
};

const endDelivery = ({ invocation_id: id }: { readonly invocation_id: string }): SqlOp[] => [
  { kind: 'delete', table: 'delivery', key: { id } },
];

const due = (column: string) => ({
  columns: { id: 'uuid not null', tenant_id: 'uuid not null', [column]: 'timestamptz not null' },
  primaryKey: ['id'],
  indexes: [{ on: `(${column})` }],
});

/** What has to happen to invocations by time: runs that may be lost, and deliveries of results. Empty when all is well. */
export const invocations: Projection = {
  name: 'invocations',
  version: 2,
  isAwaited: false,
  tables: [
    { name: 'running', ...due('deadline') },
    { name: 'delivery', ...due('next_at') },
  ],
  on: {
    ReactorStarted: ({ data, metadata }) => [
      {
        kind: 'insert',
        table: 'running',
        row: { id: data.invocation_id, tenant_id: metadata.tenant_id, deadline: data.deadline },
      },
    ],
    ReactorSucceeded: end,
    ReactorFailed: end,
    WebhookAttemptFailed: ({ data }) => [
      { kind: 'update', table: 'delivery', key: { id: data.invocation_id }, set: { next_at: data.next_at } },
    ],
    WebhookDelivered: ({ data }) => endDelivery(data),
    WebhookGivenUp: ({ data }) => endDelivery(data),
    TenantDeleted: ({ data: { tenant_id } }) => [
      { kind: 'sweep', table: 'running', where: { tenant_id } },
      { kind: 'sweep', table: 'delivery', where: { tenant_id } },
    ],
  },
};
