import type { Projection } from '../projection.ts';
import { logHandlers } from './log-entries.ts';

const countEntries = `
create function count_on_insert() returns trigger language plpgsql as $$
begin
  insert into entry_count as c (tenant_id, entity_type, hour, count)
  select tenant_id, entity_type, date_trunc('hour', created_at, 'UTC'), count(*) from new_rows
  group by 1, 2, 3 order by 1, 2, 3
  on conflict (tenant_id, entity_type, hour) do update set count = c.count + excluded.count;
  return null;
end
$$;
create trigger count_on_insert after insert on entry referencing new table as new_rows
  for each statement execute function count_on_insert()`;

/** Who did what to which entity (decisions.md §11). Nothing ever leaves it, not even with its tenant. */
export const log: Projection = {
  name: 'log',
  version: 2,
  isAwaited: false,
  tables: [
    {
      name: 'entry',
      columns: {
        tenant_id: 'uuid not null',
        seq: 'bigint not null',
        ordinal: 'integer not null',
        actor_id: 'text',
        actor_type: 'text',
        entity_type: 'text collate "C" not null',
        entity_id: 'text collate "C"',
        operation: 'text not null',
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
  ],
  ddl: [countEntries],
  on: logHandlers,
};
