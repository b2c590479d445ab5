import { tableOf, type DataOf } from '@token-vault/contracts';
import type { Occurrence, Projection, SqlOp } from '../projection.ts';

interface Attempt {
  readonly data: {
    readonly invocation_id: string;
    readonly attempt: number;
    readonly reason?: string | undefined;
  };
  readonly metadata: Occurrence['metadata'];
}

/** A run is over. The result of an asynchronous one is due for delivery from now on. */
const end = (
  { invocation_id: id, mode }: Pick<DataOf<'ReactorFailed'>, 'invocation_id' | 'mode'>,
  { occurred_at: ended_at }: Occurrence['metadata'],
  how: { readonly state: string; readonly status?: number; readonly reason?: string },
): SqlOp[] => [
  {
    kind: 'update',
    table: 'run',
    key: { id },
    set: { ...how, ended_at, ...(mode === 'async' ? { delivery: 'due', next_at: ended_at } : {}) },
  },
];

/** A delivery was tried. `delivery` is its state afterwards. */
const tried = (
  { data, metadata }: Attempt,
  { delivery, next_at = null }: { readonly delivery: string; readonly next_at?: string | null },
): SqlOp[] => [
  {
    kind: 'insert',
    table: 'attempt',
    row: {
      run_id: data.invocation_id,
      number: data.attempt,
      tenant_id: metadata.tenant_id,
      attempted_at: metadata.occurred_at,
      reason: data.reason ?? null,
    },
  },
  { kind: 'update', table: 'run', key: { id: data.invocation_id }, set: { delivery, next_at } },
];

/** Every run of a reactor, for the people who manage reactors. It contains no arguments, results or texts of the code. */
export const runs: Projection<'runs'> = {
  name: 'runs',
  version: 1,
  // Its readers wait for it themselves.
  isAwaited: false,
  tables: [
    {
      ...tableOf('runs', 'run'),
      primaryKey: ['id'],
      indexes: [
        { on: '(tenant_id, seq desc, id)', isForReaders: true },
        { on: '(tenant_id, reactor_id, seq desc, id)', isForReaders: true },
      ],
    },
    {
      ...tableOf('runs', 'attempt'),
      primaryKey: ['run_id', 'number'],
      addressedBy: 'none',
    },
  ],
  on: {
    ReactorInvoked: ({ data, metadata, position }) => [
      {
        kind: 'insert',
        table: 'run',
        row: {
          id: data.invocation_id,
          tenant_id: metadata.tenant_id,
          reactor_id: data.reactor_id,
          mode: data.mode,
          state: 'waiting',
          invoked_by: metadata.actor.id,
          invoked_at: metadata.occurred_at,
          seq: position,
        },
      },
    ],
    ReactorStarted: ({ data, metadata }) => [
      {
        kind: 'update',
        table: 'run',
        key: { id: data.invocation_id },
        set: { state: 'running', started_at: metadata.occurred_at },
      },
    ],
    ReactorSucceeded: ({ data, metadata }) => end(data, metadata, { state: 'succeeded' }),
    ReactorFailed: ({ data, metadata }) =>
      end(data, metadata, { state: 'failed', status: data.status, reason: data.reason }),
    WebhookDelivered: (event) => tried(event, { delivery: 'delivered' }),
    WebhookAttemptFailed: (event) => tried(event, { delivery: 'due', next_at: event.data.next_at }),
    WebhookGivenUp: (event) => tried(event, { delivery: 'given-up' }),
    WebhookRedeliveryRequested: ({ data, metadata }) => [
      {
        kind: 'update',
        table: 'run',
        key: { id: data.invocation_id },
        set: { delivery: 'due', next_at: metadata.occurred_at },
      },
    ],
    TenantDeleted: ({ data: { tenant_id } }) => [
      { kind: 'sweep', table: 'run', where: { tenant_id } },
      { kind: 'sweep', table: 'attempt', where: { tenant_id } },
    ],
  },
};
