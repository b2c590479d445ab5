-- The event log. Every append locks the one row of `head` first and keeps it until commit, so the appends of all
-- processes are serial and the order of positions is the order of commits: who sees position P sees all below P.
-- A sequence would not do: measured, 10 to 26 % of events were lost to readers under 16 writers.

create schema event_store;

create table event_store.head (
  is_only boolean primary key default true check (is_only),
  position bigint not null
);
insert into event_store.head (position) values (0);

create table event_store.stream (
  name text collate "C" primary key,
  revision integer not null
) with (fillfactor = 80);

create table event_store.event (
  position bigint primary key,
  stream text collate "C" not null,
  revision integer not null,
  version integer not null,
  -- Size of data and metadata, so that a reader can bound a page without touching TOAST.
  bytes integer not null,
  id uuid not null,
  type text not null,
  -- json, not jsonb: the text stays as it was written.
  data json not null,
  metadata json not null,
  unique (stream, revision)
);

create function event_store.refuse_change() returns trigger language plpgsql as $$
begin
  raise exception '% of event_store.% is refused: the log is append-only', tg_op, tg_table_name
    using errcode = 'restrict_violation';
end
$$;

create trigger append_only before update or delete or truncate on event_store.event
  for each statement execute function event_store.refuse_change();
create trigger never_shrinks before delete or truncate on event_store.stream
  for each statement execute function event_store.refuse_change();
create trigger never_shrinks before delete or truncate on event_store.head
  for each statement execute function event_store.refuse_change();

-- Position of the last of these events when they are, in this order, the events that follow `expected` in the stream.
create function event_store.repeated_position(of_stream text, expected integer, event_ids uuid[]) returns bigint
language sql stable as $$
  select max(e.position)
  from unnest(event_ids) with ordinality as i (id, ord)
  join event_store.event e on e.stream = of_stream and e.revision = expected + i.ord::integer and e.id = i.id
  having count(*) = cardinality(event_ids)
$$;

-- Stores a batch of appends and tells of each: stored (now, or before by the same call) with the position and revision
-- of its last event, or refused with the actual revision of its stream. One refusal does not touch the others.
-- An expectation is a revision, -1 (no stream), -2 (any) or -3 (exists). A batch holds at most one append with an
-- expectation other than -2 per stream; it goes before those with -2.
-- `event_appends` names the append (from 1) of each event; the events stand in the order of their appends.
create function event_store.append_events(
  append_streams text[], append_expected integer[], append_sizes integer[],
  event_appends integer[], event_ids uuid[], event_types text[], event_versions integer[],
  event_data json[], event_metadata json[]
) returns table (is_stored boolean, last_position bigint, last_revision integer)
language plpgsql
set search_path = pg_catalog, pg_temp
-- The plan is made once a session, maybe while the tables are empty: it must not scan them when they have grown.
set enable_seqscan = off
as $$
declare
  old_head bigint;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'append_events needs READ COMMITTED: it must see what was committed while it waited for the head';
  end if;
  -- An append is durable when it is answered, whatever the session's default. A SET clause of the function would
  -- end before the commit.
  if current_setting('synchronous_commit') not in ('on', 'remote_apply') then
    perform set_config('synchronous_commit', 'on', true);
  end if;

  select h.position into strict old_head from event_store.head h for update;

  return query
  with asked as (
    select i.ord::integer, i.stream, i.expected, i.size,
      -- A scalar subquery, because it cannot become a join: always one index lookup a row.
      coalesce((select s.revision from event_store.stream s where s.name = i.stream), -1) as actual,
      (sum(i.size) over (order by i.ord) - i.size)::integer as skipped
    from unnest(append_streams, append_expected, append_sizes) with ordinality as i (stream, expected, size, ord)
  ), checked as (
    select a.*, case a.expected when -2 then true when -3 then a.actual >= 0 else a.actual = a.expected end as fits
    from asked a
  ), placed as (
    select c.ord, c.stream, c.size, c.skipped,
      old_head + sum(c.size) over (order by c.expected = -2, c.ord) as end_position,
      (c.actual + sum(c.size) over (partition by c.stream order by c.expected = -2, c.ord))::integer as end_revision
    from checked c
    where c.fits
  ), stored_event as (
    insert into event_store.event (position, stream, revision, version, bytes, id, type, data, metadata)
    select p.end_position - p.size + (e.ord - p.skipped), p.stream, p.end_revision - p.size + (e.ord - p.skipped)::integer,
      e.version, pg_column_size(e.data) + pg_column_size(e.metadata), e.id, e.type, e.data, e.metadata
    from placed p
    join unnest(event_appends, event_ids, event_types, event_versions, event_data, event_metadata)
      with ordinality as e (append, id, type, version, data, metadata, ord) on e.append = p.ord
    order by 1
  ), stored_stream as (
    insert into event_store.stream as s (name, revision)
    select p.stream, max(p.end_revision) from placed p group by p.stream
    on conflict (name) do update set revision = excluded.revision
  ), stored_head as (
    update event_store.head h set position = n.position
    from (select max(p.end_position) as position from placed p) n
    where n.position is not null
  ), refused as (
    select c.ord, c.actual,
      case when c.expected >= -1 and c.actual >= c.expected + c.size then
        event_store.repeated_position(c.stream, c.expected, event_ids[c.skipped + 1 : c.skipped + c.size])
      end as repeated,
      c.expected + c.size as repeated_revision
    from checked c
    where not c.fits
  )
  select o.stored, o.end_position, o.end_revision
  from (
    select p.ord, true as stored, p.end_position, p.end_revision from placed p
    union all
    select r.ord, r.repeated is not null, r.repeated,
      case when r.repeated is null then r.actual else r.repeated_revision end
    from refused r
  ) o
  order by o.ord;

  perform pg_notify('event_store', h.position::text) from event_store.head h where h.position > old_head;
end
$$;
