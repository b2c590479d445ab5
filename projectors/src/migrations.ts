interface Migration {
  readonly id: number;
  readonly name: string;
  readonly sql: string;
}

/**
 * Tables that all projections share. The runner makes the schema of each read model.
 *
 * `checkpoint` is the contract with services that wait for a projection. It has one row for each projection. The
 * transaction that moves a position notifies the channel `projection_progress` with `<name>:<position>`. Only
 * projections with the status `live` move.
 */
const checkpoints = `
create schema projections;

create table projections.checkpoint (
  name text primary key,
  version integer not null,
  generation integer not null,
  status text not null check (status in ('live', 'paused', 'failed', 'outdated')),
  position bigint not null,
  error_event_id uuid,
  error_code text,
  updated_at timestamptz not null default now()
) with (fillfactor = 20);

create table projections.rebuild (
  name text primary key references projections.checkpoint,
  purpose text not null check (purpose in ('swap', 'verify')),
  version integer not null,
  generation integer not null,
  status text not null check (status in ('live', 'paused', 'failed')),
  position bigint not null,
  error_event_id uuid,
  error_code text,
  started_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
) with (fillfactor = 20);

-- The fence, first statement of every batch: only who knows the present position, generation and status may apply.
-- It keeps the row locked until the batch commits, so that two projectors, or a batch and a swap, take turns.
create function projections.advance(
  of_name text, of_generation integer, old_position bigint, new_position bigint
) returns void language plpgsql as $$
begin
  update projections.checkpoint c set position = new_position, updated_at = now()
  where c.name = of_name and c.generation = of_generation and c.status = 'live' and c.position = old_position;
  if not found then
    raise exception 'projection % is not live at % any more', of_name, old_position using errcode = 'PRJ01';
  end if;
end
$$;

create function projections.advance_rebuild(
  of_name text, of_generation integer, old_position bigint, new_position bigint
) returns void language plpgsql as $$
begin
  update projections.rebuild r set position = new_position, updated_at = now()
  where r.name = of_name and r.generation = of_generation and r.status = 'live' and r.position = old_position;
  if not found then
    raise exception 'rebuild of % is not live at % any more', of_name, old_position using errcode = 'PRJ01';
  end if;
end
$$;
`;

/**
 * Read models of the first release have statistics of their sealed columns; later ones are made without them
 * (`sealedColumns`). A change of a column's type, here to the same type, is the only statement that removes the
 * column's row from `pg_statistic` in every supported release of Postgres.
 */
const noSealedStatistics = `
do $$
declare
  sealed record;
begin
  for sealed in
    select a.attrelid::regclass as relation, a.attname as name, format_type(a.atttypid, a.atttypmod) as type
    from pg_attribute a
    join pg_class c on c.oid = a.attrelid and c.relkind = 'r'
    join pg_namespace n on n.oid = c.relnamespace and n.nspname like 'rm\\_%'
    where (c.relname, a.attname) in (
      ('token', 'data'), ('token', 'cvc'), ('reactor', 'configuration'), ('tenant', 'webhook_secret'), ('staged_event', 'event')
    )
  loop
    execute format('alter table %s alter column %I set statistics 0', sealed.relation, sealed.name);
    execute format('alter table %s alter column %I type %s', sealed.relation, sealed.name, sealed.type);
  end loop;
end
$$;
`;

/**
 * `access` is the contract between processes that confirm revocations and processes that cache callers (ADR 21). The
 * channel `projection_status` reports a change of status at once, without polling the checkpoints.
 */
const access = `
create table projections.access (
  is_only boolean primary key default true check (is_only),
  generation bigint not null
) with (fillfactor = 20);
insert into projections.access (generation) values (0);

-- Of revocations that were stored and could not be confirmed.
create table projections.unconfirmed_revocation (
  position bigint primary key,
  noted_at timestamptz not null default now()
);

create function projections.notify_status() returns trigger language plpgsql as $$
begin
  perform pg_notify('projection_status', new.name);
  return null;
end
$$;

create trigger status_changed after update of status on projections.checkpoint
for each row when (old.status is distinct from new.status) execute function projections.notify_status();
`;

/** Whose rights each generation of `access` changed. Processes forget only the callers that rest on these streams (ADR 21). */
const revocations = `
create table projections.revocation (
  generation bigint not null,
  stream text collate "C" not null,
  primary key (generation, stream)
);
`;

export const projectorMigrations: readonly Migration[] = [
  { id: 1, name: 'checkpoints', sql: checkpoints },
  { id: 2, name: 'no statistics of sealed columns', sql: noSealedStatistics },
  { id: 3, name: 'access', sql: access },
  { id: 4, name: 'revocations', sql: revocations },
];
