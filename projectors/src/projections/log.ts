import type { Projection } from '../projection.ts';
import { logHandlers } from './log-entries.ts';

const kind = ['entity_type', 'operation', 'transform', 'request'] as const;
/** What is absent counts as the empty text: a column of a primary key is not null. */
const counters = {
  // Each some ten times smaller than the next: the first answers the log as a whole, the last that of an actor.
  entry_count: ['tenant_id', 'entity_type'],
  entry_kind_count: ['tenant_id', ...kind],
  actor_kind_count: ['tenant_id', 'actor_id', ...kind],
} as const;

const counting = (table: keyof typeof counters): string => {
  const key = [...counters[table], 'hour'].join(', ');
  return `
    insert into ${table} as c (${key}, count)
    select ${key}, sum(count) from found group by ${key}
    on conflict (${key}) do update set count = c.count + excluded.count`;
};

// A batch has hundreds of entries of few kinds: they are gone through once, for the finest counter.
const countEntries = `
create function count_on_insert() returns trigger language plpgsql as $$
begin
  with found as materialized (
    select tenant_id, coalesce(actor_id, '') as actor_id, entity_type, operation, coalesce(transform, '') as transform,
      coalesce(request, '') as request, date_trunc('hour', created_at, 'UTC') as hour, count(*) as count
    from new_rows group by 1, 2, 3, 4, 5, 6, 7
  ),
  by_type as (${counting('entry_count')}),
  by_kind as (${counting('entry_kind_count')})
  ${counting('actor_kind_count')};
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

const order = ['created_at', 'seq', 'ordinal'];
const narrowings = ['entity_type', 'entity_id', 'actor_id', 'operation', 'transform', 'request', 'trace_id'];

/** Who did what to which entity (rules.md §11). Nothing ever leaves it, not even with its tenant. */
export const log: Projection = {
  name: 'log',
  version: 4,
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
      // The order in which the log is answered, backwards: a new entry comes last of those like it. Were it the first, each page
      // of an index would be split in halves that stay half empty.
      primaryKey: ['tenant_id', ...order],
      addressedBy: 'none',
      indexes: narrowings.map((column) => ({
        on: `(${['tenant_id', column, ...order].join(', ')}) where ${column} is not null`,
        isForReaders: true,
      })),
    },
    ...counterTables,
  ],
  ddl: [countEntries],
  on: logHandlers,
};
