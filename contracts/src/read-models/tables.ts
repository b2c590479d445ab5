import { alertTables } from './alerts.ts';
import { applicationTables } from './applications.ts';
import { invocationTables } from './invocations.ts';
import { logSummaryTables } from './log-summary.ts';
import { logTables } from './log.ts';
import type { ReadModelName } from './names.ts';
import { proxyTables } from './proxies.ts';
import { reactorTables } from './reactors.ts';
import { runTables } from './runs.ts';
import { tenantTables } from './tenants.ts';
import { tokenTables } from './tokens.ts';
import { transactionTables } from './transactions.ts';

type Columns = Readonly<Record<string, string>>;

/**
 * The tables of the read models: column name to SQL type and constraints. Projections fill them, and the SQL of readers
 * takes names from here, so that a renamed column does not compile.
 */
const tables = {
  tenants: tenantTables,
  applications: applicationTables,
  tokens: tokenTables,
  log: logTables,
  reactors: reactorTables,
  proxies: proxyTables,
  transactions: transactionTables,
  invocations: invocationTables,
  alerts: alertTables,
  runs: runTables,
  log_summary: logSummaryTables,
} as const satisfies Readonly<Record<ReadModelName, Readonly<Record<string, Columns>>>>;

type Tables = typeof tables;
type TableName<Model extends ReadModelName> = keyof Tables[Model] & string;
type ColumnOf<Model extends ReadModelName, Name extends TableName<Model>> = keyof Tables[Model][Name] &
  string;

/** The schema of the live tables of a read model. */
export const liveSchema = (name: string): string => `rm_${name}`;

/** A table for its projection. */
export function tableOf<Model extends ReadModelName, Name extends TableName<Model>>(
  model: Model,
  name: Name,
): { readonly name: Name; readonly columns: Tables[Model][Name] } {
  return { name, columns: tables[model][name] };
}

/** The names of a table for SQL. `source` follows `from` or `join`; the other properties are columns with the alias. */
export type Aliased<Column extends string, Alias extends string> = Readonly<
  { source: string } & { [Name in Column]: `${Alias}.${Name}` }
>;

/** `aliased('tokens', 'token', 't')` gives `rm_tokens.token as t`, `t.id` and so on. */
export function aliased<
  Model extends ReadModelName,
  Name extends TableName<Model>,
  const Alias extends string,
>(model: Model, name: Name, alias: Alias): Aliased<ColumnOf<Model, Name>, Alias> {
  const columns: Columns = tableOf(model, name).columns as Columns;
  const names = Object.keys(columns).map((column) => [column, `${alias}.${column}`]);
  return {
    source: `${liveSchema(model)}.${name} as ${alias}`,
    ...(Object.fromEntries(names) as { [Column in ColumnOf<Model, Name>]: `${Alias}.${Column}` }),
  };
}
