import type { Projection } from '../projection.ts';
import { logHandlers } from './log-entries.ts';

const kind = ['entity_type', 'operation', 'transform', 'request'] as const;
/** What is absent counts as the empty text: a column of a primary key is not null. */
const counters: Readonly<Record<string, readonly string[]>> = {
  // Each some ten times smaller than the next: the first answers the log as a whole, the last that of an actor.
  entry_count: ['tenant_id', 'entity_type'],
  entry_kind_count: ['tenant_id', ...kind],
  actor_kind_count: ['tenant_id', 'actor_id', ...kind],
};
const isMaybeAbsent = new Set(['actor_id', 'transform', 'request']);

const counting = ([table, columns]: [string, readonly string[]]): string => {
  const values = columns.map((column) => (isMaybeAbsent.has(column) ? `coalesce(${column}, '')` : column));
  const places = [...columns, 'hour'].map((_column, index) => index + 1).join(', ');
  return `
  insert into ${table} as c (${columns.join(', ')}, hour, count)
  select ${values.join(', ')}, date_trunc('hour', created_at, 'UTC'), count(*) from new_rows
  group by ${places} order by ${places}
  on conflict (${columns.join(', ')}, hour) do update set count = c.count + excluded.count;`;
};

const countEntries = `
create function count_on_insert() returns trigger language plpgsql as $$
begin
  ${Object.entries(counters).map(counting).join('')}
  return null;
end
$$;
create trigger count_on_insert after insert on entry referencing new table as new_rows
  for each statement execute function count_on_insert()`;

const counterTables = Object.entries(counters).map(([name, columns]) => ({
  name,
  columns: {
    tenant_id: 'uuid not null',
    ...Object.fromEntries(columns.slice(1).map((column) => [column, 'text collate "C" not null'])),
    hour: 'timestamptz not null',
    count: 'bigint not null',
  },
  primaryKey: [...columns, 'hour'],
}));

/** Who did what to which entity (decisions.md §11). Nothing ever leaves it, not even with its tenant. */
export const log: Projection = {
  name: 'log',
  version: 3,
  isAwaited: false,
  tables: [
    {
      name: 'entry',
      columns: {
        tenant_id: 'uuid not null',
        seq: 'bigint not null',
        ordinal: 'integer not null',
        actor_id: 'text collate "C"',
        actor_type: 'text',
        entity_type: 'text collate "C" not null',
        entity_id: 'text collate "C"',
        operation: 'text collate "C" not null',
        transform: 'text collate "C"',
        request: 'text collate "C"',
        trace_id: 'text collate "C"',
        message: 'text not null',
        created_at: 'timestamptz not null',
      },
      primaryKey: ['tenant_id', 'seq', 'ordinal'],
      addressedBy: 'none',
      indexes: [
        // In the order in which the log is answered, for each way of narrowing it.
        { on: '(tenant_id, created_at desc, seq desc, ordinal desc)', isForReaders: true },
        { on: '(tenant_id, entity_type, created_at desc, seq desc, ordinal desc)', isForReaders: true },
        { on: '(tenant_id, entity_id, created_at desc, seq desc, ordinal desc)', isForReaders: true },
        { on: '(tenant_id, actor_id, created_at desc, seq desc, ordinal desc)', isForReaders: true },
        { on: '(tenant_id, operation, created_at desc, seq desc, ordinal desc)', isForReaders: true },
        { on: '(tenant_id, trace_id, created_at desc, seq desc, ordinal desc)', isForReaders: true },
        {
          on: '(tenant_id, transform, created_at desc, seq desc, ordinal desc) where transform is not null',
          isForReaders: true,
        },
        {
          on: '(tenant_id, request, created_at desc, seq desc, ordinal desc) where request is not null',
          isForReaders: true,
        },
      ],
    },
    ...counterTables,
  ],
  ddl: [countEntries],
  on: logHandlers,
};
