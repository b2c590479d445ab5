/** The read models, by the names of their projections. */
export const readModelNames = [
  'tenants',
  'applications',
  'tokens',
  'log',
  'reactors',
  'proxies',
  'transactions',
  'invocations',
  'alerts',
  'runs',
  'log_summary',
] as const;
export type ReadModelName = (typeof readModelNames)[number];

/** Who can write the database can write other names into `projections.checkpoint`. They keep nothing waiting, and `audit verify` names them. */
export const isReadModelName = (name: string): name is ReadModelName =>
  readModelNames.some((known) => known === name);

/** Every request needs these, because the caller is authenticated from them (rules.md §1). */
export const authenticationReadModels = [
  'applications',
  'tenants',
] as const satisfies readonly ReadModelName[];
