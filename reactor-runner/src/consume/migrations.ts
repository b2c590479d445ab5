/**
 * Stores the position of the direct feed in the log. Ids rise from 1 without gaps. A released migration never
 * changes.
 */
export const invocationFeedMigrations: readonly {
  readonly id: number;
  readonly name: string;
  readonly sql: string;
}[] = [
  {
    id: 1,
    name: 'invocation feed checkpoint',
    sql: `
create schema invocations;

create table invocations.checkpoint (
  name text primary key,
  position numeric(20) not null
) with (fillfactor = 20);
`,
  },
];
