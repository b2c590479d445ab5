/**
 * Stores the position up to which erasures were repeated, and what the sweep of keys has noted. A position has up to 64 unsigned bits, more than bigint
 * holds. Ids rise from 1 without gaps. A released migration never changes.
 */
export const housekeepingMigrations: readonly {
  readonly id: number;
  readonly name: string;
  readonly sql: string;
}[] = [
  {
    id: 1,
    name: 'housekeeping checkpoint',
    sql: `
create schema housekeeping;

create table housekeeping.checkpoint (
  name text primary key,
  position numeric(20) not null,
  updated_at timestamptz not null
) with (fillfactor = 20);
`,
  },
  {
    id: 2,
    name: 'sweep of keys without events',
    // One row at most: see key-sweep-record.ts.
    sql: `
create table housekeeping.key_sweep (
  is_only boolean primary key default true check (is_only),
  after uuid not null,
  until uuid not null,
  stream text not null,
  revision integer not null,
  event_id uuid not null,
  position numeric(20) not null,
  noted_at timestamptz not null
) with (fillfactor = 20);
`,
  },
];
