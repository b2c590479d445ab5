/**
 * Stores the position up to which erasures were repeated. A position has up to 64 unsigned bits, more than bigint
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
];
