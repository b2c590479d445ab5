import { applicationOperations } from './applications.ts';
import { accessOperations, consoleOperations } from './console.ts';
import { invocationOperations } from './invocations.ts';
import { proxyOperations } from './proxy.ts';
import { reactorOperations } from './reactors.ts';
import { tenantOperations } from './tenants.ts';
import { tokenOperations } from './tokens.ts';

export { anyMethods, methodsOf, readsBody } from './definition.ts';
export type { Operation, ParamsOf, QueryOf, BodyOf, RawRequest } from './definition.ts';

/** The operations table: the whole HTTP interface. Where paths overlap, the more literal one comes first. */
export const operations = {
  ...tokenOperations,
  ...accessOperations,
  ...applicationOperations,
  ...reactorOperations,
  ...invocationOperations,
  ...proxyOperations,
  ...tenantOperations,
  ...consoleOperations,
} as const;

export type Operations = typeof operations;
export type OperationId = keyof Operations;
