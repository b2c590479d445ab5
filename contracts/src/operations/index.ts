import { applicationOperations } from './applications.ts';
import { reactorOperations } from './reactors.ts';
import { tenantOperations } from './tenants.ts';
import { tokenOperations } from './tokens.ts';

export type { Operation, ParamsOf, QueryOf, BodyOf } from './definition.ts';

/** The operations table: the whole HTTP interface, stated once. Where paths overlap the more literal one comes first. */
export const operations = {
  ...tokenOperations,
  ...applicationOperations,
  ...reactorOperations,
  ...tenantOperations,
} as const;

export type Operations = typeof operations;
export type OperationId = keyof Operations;
