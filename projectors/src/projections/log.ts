import type { Projection } from '../projection.ts';
import { logHandlers } from './log-entries.ts';

const countEntries = `
create function count_on_insert() returns trigger language plpgsql as $$
begin
  insert into entry_count as c (tenant_id, entity_type, hour, count)
  select tenant_id, entity_type, date_trunc('hour', created_at, 'UTC'), count(*) from new_rows
  group by 1, 2, 3 order by 1, 2, 3
  on conflict (tenant_id, entity_type, hour) do update set count = c.count + excluded.count;
  insert into entry_kind_count as c (tenant_id, entity_type, operation, transform, request, hour, count)
  select tenant_id, entity_type, operation, coalesce(transform, ''), coalesce(request, ''),
         date_trunc('hour', created_at, 'UTC'), count(*) from new_rows
  group by 1, 2, 3, 4, 5, 6 order by 1, 2, 3, 4, 5, 6
  on conflict (tenant_id, entity_type, operation, transform, request, hour)
  do update set count = c.count + excluded.count;
  return null;
end
$$;
create trigger count_on_insert after insert on entry referencing new table as new_rows
  for each statement execute function count_on_insert()`;

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
    {
      name: 'entry_count',
      columns: {
        tenant_id: 'uuid not null',
        entity_type: 'text collate "C" not null',
        hour: 'timestamptz not null',
        count: 'bigint not null',
      },
      primaryKey: ['tenant_id', 'entity_type', 'hour'],
    },
    // Apart from `entry_count`, which is some ten times smaller and answers the log as a whole.
    {
      name: 'entry_kind_count',
      columns: {
        tenant_id: 'uuid not null',
        entity_type: 'text collate "C" not null',
        operation: 'text collate "C" not null',
        transform: `text collate "C" not null`,
        request: `text collate "C" not null`,
        hour: 'timestamptz not null',
        count: 'bigint not null',
      },
      primaryKey: ['tenant_id', 'entity_type', 'operation', 'transform', 'request', 'hour'],
    },
  ],
  ddl: [countEntries],
  on: logHandlers,
};
