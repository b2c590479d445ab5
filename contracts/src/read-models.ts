/** The read models, as their projections are called. */
export const readModelNames = [
  'tenants',
  'applications',
  'tokens',
  'log',
  'reactors',
  'transactions',
  'invocations',
] as const;
export type ReadModelName = (typeof readModelNames)[number];

/** Every request needs these: its caller is made out from them (rules.md §1). */
export const authenticationReadModels = [
  'applications',
  'tenants',
] as const satisfies readonly ReadModelName[];
