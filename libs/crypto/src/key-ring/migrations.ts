import { wrappedKeyLength } from '../wrapping.ts';

export interface Migration {
  /** Increases from 1 without gaps. A released migration never changes. */
  readonly id: number;
  readonly name: string;
  readonly sql: string;
}

/** The table of data keys, by `id`. */
export const dataKeyTable = 'key_ring.data_key';

/**
 * The key ring's tables. They have a schema of their own, so that they can be granted, vacuumed and backed up apart from other tables.
 * `wrapped` columns hold keys only in wrapped form.
 */
export const keyRingMigrations: readonly Migration[] = [
  {
    id: 1,
    name: 'key ring',
    sql: `
create schema if not exists key_ring;

-- One row a root key; more than one without retired_at while the root key is being rotated.
create table key_ring.root_key (
  root_key_id text primary key,
  check_value bytea not null,
  created_at timestamptz not null,
  retired_at timestamptz
);

-- One row a tenant for life: the wrapped key all its keyed hashes derive from.
create table key_ring.tenant_index_key (
  tenant_id uuid primary key,
  tenant_key_version integer not null,
  wrapped bytea not null,
  created_at timestamptz not null
);

-- More than one version a tenant while its key is being rotated; new data keys use the highest.
create table key_ring.tenant_key (
  tenant_id uuid not null,
  version integer not null,
  root_key_id text not null references key_ring.root_key,
  wrapped bytea not null,
  created_at timestamptz not null,
  primary key (tenant_id, version)
);
create index tenant_key_by_root_key on key_ring.tenant_key (root_key_id);

-- A destroyed tenant never gets keys again under its id.
create table key_ring.destroyed_tenant (
  tenant_id uuid primary key,
  destroyed_at timestamptz not null
);

-- Destroyed is deleted. No foreign key: each insert checks its tenant key once a batch instead of once a row.
create table key_ring.data_key (
  id uuid primary key,
  tenant_id uuid not null,
  tenant_key_version integer not null,
  created_at timestamptz not null,
  destroy_after timestamptz,
  purpose text not null,
  entity text not null,
  wrapped bytea not null check (octet_length(wrapped) = ${wrappedKeyLength})
) with (autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0.01);
create index data_key_by_entity on key_ring.data_key (tenant_id, entity);
create index data_key_by_destroy_after on key_ring.data_key (destroy_after) where destroy_after is not null;
`,
  },
  {
    id: 2,
    name: 'no statistics of wrapped keys',
    // ANALYZE copies up to 101 values of a column into pg_statistic, where they stay after the row is deleted. Changing the column to the
    // same type removes these statistics; `set statistics 0` alone keeps them.
    sql: ['data_key', 'tenant_key', 'tenant_index_key']
      .map(
        (table) => `
alter table key_ring.${table} alter column wrapped set statistics 0;
alter table key_ring.${table} alter column wrapped type bytea;`,
      )
      .join(''),
  },
];
