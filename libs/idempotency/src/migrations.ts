export interface Migration {
  readonly id: number;
  readonly name: string;
  readonly sql: string;
}

/**
 * `scope` is a keyed hash of tenant, caller, method, path and key. A row without an answer is a request that runs, or that ran in a process
 * that has ended: `held_until` decides. `answer` holds sealed values only.
 */
export const idempotencyMigrations: readonly Migration[] = [
  {
    id: 1,
    name: 'idempotent answers',
    sql: `
create schema idempotency;

create table idempotency.answer (
  scope bytea primary key check (octet_length(scope) = 32),
  tenant_id uuid not null,
  -- The same for every attempt of one request: what its event ids are made of.
  request_id uuid not null,
  held_by uuid not null,
  held_until timestamptz not null,
  expires_at timestamptz not null,
  answer jsonb
) with (fillfactor = 70);
create index answer_by_expires_at on idempotency.answer (expires_at);
`,
  },
  {
    id: 2,
    name: 'no statistics of sealed answers',
    // As for wrapped keys (libs/crypto): changing the column type removes the existing statistics.
    sql: `
alter table idempotency.answer alter column answer set statistics 0;
alter table idempotency.answer alter column answer type jsonb;
`,
  },
];
