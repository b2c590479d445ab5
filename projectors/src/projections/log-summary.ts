import { tableOf, type JsonInput, type VaultEventType } from '@token-vault/contracts';
import type { Occurrence, Projection, Row, SqlOp, Table } from '../projection.ts';
import { logHandlers } from './log-entries.ts';

const grains = { minute: 60_000, hour: 3_600_000 } as const;
type Grain = keyof typeof grains;

const dimensions = ['actor_id', 'entity_type', 'operation', 'transform', 'request'] as const;

/**
 * The number of log entries of each kind, by minute and by hour. Ids of entities and of traces are not counted: there may be as many as
 * entries. A reason is free text, so entries with one are counted a second time in tables of their own. Callers who give another
 * reason each time make only those long, never longer than the log.
 */
const counterTable = (
  name: 'minute_count' | 'minute_reason_count' | 'hour_count' | 'hour_reason_count',
  columns: readonly string[],
): Table => ({
  ...tableOf('log_summary', name),
  // Queries name a tenant and a range. A new counter comes after the older ones of its tenant.
  primaryKey: ['tenant_id', 'at', ...columns],
});

const counterTables = (['minute', 'hour'] as const).flatMap((grain) => [
  counterTable(`${grain}_count`, dimensions),
  counterTable(`${grain}_reason_count`, [...dimensions, 'reason']),
]);

const activeTokens: readonly Table[] = [
  { ...tableOf('log_summary', 'active_token'), primaryKey: ['tenant_id', 'month', 'token_id'] },
  { ...tableOf('log_summary', 'active_token_count'), primaryKey: ['tenant_id', 'month'] },
];

/** The rows that a statement has made, not those that were there. */
const countActiveTokens = (schema: string): readonly string[] => [
  `
create function count_active_tokens() returns trigger language plpgsql as $$
begin
  insert into active_token_count as c (tenant_id, month, count)
  select tenant_id, month, count(*) from new_rows group by 1, 2
  on conflict (tenant_id, month) do update set count = c.count + excluded.count;
  return null;
end
$$;
create trigger count_active_tokens after insert on active_token referencing new table as new_rows
  for each statement execute function ${schema}.count_active_tokens()`,
];

const tokenTypes: ReadonlySet<unknown> = new Set(['token', 'card', 'bank']);
const uses: ReadonlySet<unknown> = new Set(['create', 'read', 'update', 'use', 'list', 'search']);

interface Periods extends Readonly<Record<Grain, string>> {
  readonly month: string;
}

/** The starts of the periods of UTC that a moment is in. */
function periodsOf(moment: string): Periods {
  const atMs = Date.parse(moment);
  const startOf = (grain: Grain) => new Date(Math.floor(atMs / grains[grain]) * grains[grain]).toISOString();
  const hour = startOf('hour');
  return { minute: startOf('minute'), hour, month: `${hour.slice(0, 'yyyy-mm'.length)}-01T00:00:00.000Z` };
}

/** Marks the tokens of entries as active in their month. */
function activityOf(
  { tenant_id, entity_type: type, entity_id: id, entity_ids: ids, operation }: Row,
  { month }: Periods,
): SqlOp[] {
  if (!tokenTypes.has(type) || !uses.has(operation)) return [];
  const used: readonly JsonInput[] = Array.isArray(ids) ? ids : [id ?? null];
  return used.flatMap((token_id): SqlOp[] =>
    typeof token_id === 'string'
      ? [{ kind: 'mark', table: 'active_token', key: { tenant_id, month, token_id } }]
      : [],
  );
}

/** The counters of a row of log entries. An absent value is the empty text, because a column of a primary key cannot be null. */
function countersOf(entry: Row, periods: Periods): SqlOp[] {
  const kind = Object.fromEntries(dimensions.map((column) => [column, entry[column] ?? '']));
  const { tenant_id, reason } = entry;
  const by = Number(entry.size);
  return (['minute', 'hour'] as const).flatMap((grain): SqlOp[] => {
    const key = { tenant_id, ...kind, at: periods[grain] };
    const counted: SqlOp = { kind: 'count', table: `${grain}_count`, key, by };
    if (reason === undefined || reason === null) return [counted];
    return [counted, { kind: 'count', table: `${grain}_reason_count`, key: { ...key, reason }, by }];
  });
}

/** Counts the entries that the read model `log` makes from the event, so that both read models agree. */
function counting<Type extends VaultEventType>(type: Type): (event: Occurrence<Type>) => SqlOp[] {
  const entriesOf = logHandlers[type] as ((event: Occurrence<Type>) => readonly SqlOp[]) | undefined;
  return (event) => {
    // The time of each of its entries.
    const periods = periodsOf(event.metadata.occurred_at);
    return (entriesOf?.(event) ?? []).flatMap((op) =>
      op.kind === 'insert' ? [...countersOf(op.row, periods), ...activityOf(op.row, periods)] : [],
    );
  };
}

const logged = Object.keys(logHandlers) as VaultEventType[];

/** Counters for `GET /logs/summary` and for active tokens by month. Like the log, they stay when their tenant is deleted. */
export const logSummary: Projection<'log_summary'> = {
  name: 'log_summary',
  version: 2,
  // Its readers wait for it themselves.
  isAwaited: false,
  tables: [...counterTables, ...activeTokens],
  ddl: countActiveTokens,
  on: Object.fromEntries(logged.map((type) => [type, counting(type)])),
};
