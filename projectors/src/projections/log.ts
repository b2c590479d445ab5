import { tableOf } from '@token-vault/contracts';
import type { Projection } from '../projection.ts';
import { logHandlers } from './log-entries.ts';

const kind = ['entity_type', 'operation', 'transform', 'request'] as const;
const counters = {
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

// A batch has hundreds of entries of few kinds. So the rows of the batch are read once, for the finest counter.
const countEntries = (schema: string): readonly string[] => [
  `
create function count_on_insert() returns trigger language plpgsql as $$
begin
  with found as materialized (
    select tenant_id, coalesce(actor_id, '') as actor_id, entity_type, operation, coalesce(transform, '') as transform,
      coalesce(request, '') as request, date_trunc('hour', created_at, 'UTC') as hour, sum(size) as count
    from new_rows group by 1, 2, 3, 4, 5, 6, 7
  ),
  by_type as (${counting('entry_count')}),
  by_kind as (${counting('entry_kind_count')}),
  by_entity as (
    insert into entry_entity (tenant_id, entity_id, created_at, seq, ordinal, place)
    select tenant_id, entity.id, created_at, seq, ordinal, entity.place
    from new_rows cross join lateral unnest(entity_ids) with ordinality entity(id, place) where size > 1
  )
  ${counting('actor_kind_count')};
  return null;
end
$$;
create trigger count_on_insert after insert on entry referencing new table as new_rows
  for each statement execute function ${schema}.count_on_insert()`,
];

const counterTables = (['entry_count', 'entry_kind_count', 'actor_kind_count'] as const).map((name) => ({
  ...tableOf('log', name),
  primaryKey: [...counters[name], 'hour'],
}));

const order = ['created_at', 'seq', 'ordinal'];
/**
 * Each has an index. Those of few values (entity type, operation, transform, request) together cost about an eighth of Postgres' time for a
 * read (docs/explanation/scale.md); without them a filter by a rare value would read the whole log of the tenant.
 */
const narrowings = [
  'entity_type',
  'entity_id',
  'actor_id',
  'operation',
  'transform',
  'request',
  'trace_id',
  'reason',
];

/** The audit log: actor, operation and entity of each entry (rules.md §11). Rows are never deleted, not even when their tenant is deleted. */
export const log: Projection<'log'> = {
  name: 'log',
  version: 6,
  isAwaited: false,
  tables: [
    {
      ...tableOf('log', 'entry'),
      // The log is answered in this order, backwards. A new entry sorts after equal ones. If it sorted before them,
      // each index page would be split into two half-empty pages.
      primaryKey: ['tenant_id', ...order],
      primaryKeyIncludes: ['size'],
      addressedBy: 'none',
      indexes: narrowings.map((column) => ({
        on: `(${['tenant_id', column, ...order].join(', ')}) include (size) where ${column} is not null`,
        isForReaders: true,
      })),
    },
    { ...tableOf('log', 'entry_entity'), primaryKey: ['tenant_id', 'entity_id', ...order, 'place'] },
    ...counterTables,
  ],
  ddl: countEntries,
  on: logHandlers,
};
