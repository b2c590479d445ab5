import { accessEvents } from './access.ts';
import { applicationEvents, sessionEvents } from './application.ts';
import { auditEvents } from './audit.ts';
import { invocationEvents } from './invocation.ts';
import { reactorEvents } from './reactor.ts';
import { EventRegistry, type EventOf } from './registry.ts';
import { tenantEvents } from './tenant.ts';
import { tokenEvents } from './token.ts';
import { transactionEvents } from './transaction.ts';

export * from './access.ts';
export * from './application.ts';
export * from './audit.ts';
export * from './history.ts';
export * from './invocation.ts';
export * from './reactor.ts';
export * from './registry.ts';
export * from './tenant.ts';
export * from './token.ts';
export * from './transaction.ts';

export const eventDefinitions = [
  ...tenantEvents,
  ...applicationEvents,
  ...sessionEvents,
  ...tokenEvents,
  ...reactorEvents,
  ...invocationEvents,
  ...transactionEvents,
  ...accessEvents,
  ...auditEvents,
] as const;

/** Every event of the product, each with its exact data type. */
export type VaultEvent = EventOf<(typeof eventDefinitions)[number]>;
export type VaultEventType = VaultEvent['type'];
export type DataOf<Type extends VaultEventType> = Extract<VaultEvent, { type: Type }>['data'];

/** Those that carry a signature of what they leave. */
export const signedEventTypes: ReadonlySet<string> = new Set(
  eventDefinitions.filter(({ schema }) => 'signature' in schema.shape).map(({ type }) => type),
);

export const eventRegistry = new EventRegistry(eventDefinitions);
