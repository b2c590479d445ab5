import { authorOf, tableOf, type DataOf } from '@token-vault/contracts';
import type { Occurrence, Projection, SqlOp } from '../projection.ts';

/** The run is over. The result of an asynchronous invocation is due for delivery from now on. */
const end = ({
  data,
  metadata,
}: Pick<Occurrence<'ReactorSucceeded' | 'ReactorFailed'>, 'metadata'> & {
  readonly data: Pick<DataOf<'ReactorFailed'>, 'invocation_id' | 'mode'>;
}): SqlOp[] => {
  const { invocation_id: id } = data;
  const isOver: SqlOp = { kind: 'delete', table: 'running', key: { id } };
  if (data.mode === 'sync') return [isOver];
  const { occurred_at: next_at } = metadata;
  return [
    isOver,
    { kind: 'delete', table: 'waiting', key: { id } },
    { kind: 'update', table: 'delivery', key: { id }, set: { next_at } },
  ];
};

const endDelivery = ({ invocation_id: id }: { readonly invocation_id: string }): SqlOp[] => [
  { kind: 'delete', table: 'delivery', key: { id } },
];

/**
 * Work that is due on invocations: asynchronous ones that wait for a runner or have one (`running`), runs that may be
 * lost, and deliveries of results. The table is empty when no work is due.
 */
export const invocations: Projection<'invocations'> = {
  name: 'invocations',
  version: 6,
  isAwaited: false,
  tables: [
    {
      ...tableOf('invocations', 'waiting'),
      primaryKey: ['id'],
      indexes: [{ on: '(tenant_id, application_id, invoked_at, id)', isForReaders: true }],
    },
    {
      ...tableOf('invocations', 'running'),
      primaryKey: ['id'],
      indexes: [{ on: '(tenant_id, deadline)' }],
    },
    {
      ...tableOf('invocations', 'delivery'),
      primaryKey: ['id'],
      // Without the invocations that have no result yet. Of them there may be a million.
      indexes: [
        { on: '(tenant_id, application_id, next_at, id) where next_at is not null', isForReaders: true },
      ],
    },
  ],
  on: {
    ReactorInvoked({ data: { mode, invocation_id: id }, metadata }) {
      if (mode === 'sync') return [];
      const { tenant_id, occurred_at: invoked_at } = metadata;
      const named = { id, tenant_id, application_id: authorOf(metadata) };
      return [
        { kind: 'insert', table: 'waiting', row: { ...named, invoked_at } },
        // The events of its result do not name the application.
        { kind: 'insert', table: 'delivery', row: named },
      ];
    },
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
    // The result is due, or was given up: then its row is gone.
    WebhookRedeliveryRequested({ data, metadata }) {
      const { tenant_id, occurred_at: next_at } = metadata;
      const row = { id: data.invocation_id, tenant_id, application_id: authorOf(metadata), next_at };
      return [...endDelivery(data), { kind: 'insert', table: 'delivery', row }];
    },
    WebhookDelivered: ({ data }) => endDelivery(data),
    WebhookGivenUp: ({ data }) => endDelivery(data),
    TenantDeleted: ({ data: { tenant_id } }) => [
      { kind: 'sweep', table: 'waiting', where: { tenant_id } },
      { kind: 'sweep', table: 'running', where: { tenant_id } },
      { kind: 'sweep', table: 'delivery', where: { tenant_id } },
    ],
  },
};
