import { accessEvents } from './access.ts';
import { alertEvents } from './alert.ts';
import { applicationEvents, consoleSessionEvents, sessionEvents } from './application.ts';
import { auditEvents } from './audit.ts';
import { invocationEvents } from './invocation.ts';
import { keyEvents } from './keys.ts';
import { proxyEvents } from './proxy.ts';
import { reactorEvents } from './reactor.ts';
import type { Immutable } from '../json.ts';
import { EventRegistry, type EventOf, type NewEvent } from './registry.ts';
import { tenantEvents } from './tenant.ts';
import { tokenEvents } from './token.ts';
import { transactionEvents } from './transaction.ts';

export * from './access.ts';
export * from './alert.ts';
export * from './application.ts';
export * from './audit.ts';
export * from './history.ts';
export * from './invocation.ts';
export * from './run-console.ts';
export * from './keys.ts';
export * from './outcome-content.ts';
export * from './own-stream.ts';
export * from './parent-run.ts';
export * from './proxy.ts';
export * from './reactor.ts';
export * from './registry.ts';
export * from './tenant.ts';
export * from './token.ts';
export * from './transaction.ts';

export const eventDefinitions = [
  ...tenantEvents,
  ...applicationEvents,
  ...sessionEvents,
  ...consoleSessionEvents,
  ...tokenEvents,
  ...reactorEvents,
  ...invocationEvents,
  ...proxyEvents,
  ...transactionEvents,
  ...accessEvents,
  ...auditEvents,
  ...alertEvents,
  ...keyEvents,
] as const;

/** Every event of the product, each with its exact data type. */
export type VaultEvent = EventOf<(typeof eventDefinitions)[number]>;
export type VaultEventType = VaultEvent['type'];
export type DataOf<Type extends VaultEventType> = Extract<VaultEvent, { type: Type }>['data'];

/**
 * The data of a new event as a decider gives it: read-only, because it does not change any more, and without the signature, which is added
 * before the append (`command-service/src/aggregates/signing.ts`).
 */
export type NewDataOf<Type extends VaultEventType> = Type extends VaultEventType
  ? Immutable<Unsigned<DataOf<Type>>>
  : never;
type Unsigned<Data> = Data extends { signature: string } ? Omit<Data, 'signature'> : Data;

/** The type and version of the event to make: a definition, or another object with these fields. */
export interface EventName<Type extends VaultEventType> {
  readonly type: Type;
  readonly version: number;
}

/** Makes an event. The compiler checks the data. @throws nothing; the store checks the data against the schema before the append */
export function newEvent<Type extends VaultEventType>(
  { type, version }: EventName<Type>,
  data: NewDataOf<Type>,
  { id, metadata }: Pick<NewEvent, 'id' | 'metadata'>,
): Extract<VaultEvent, { type: Type }> {
  // eslint-disable-next-line no-restricted-syntax -- The compiler cannot follow `Type` through the union of all events. The signature checks `data`.
  return { id, type, version, data, metadata } as unknown as Extract<VaultEvent, { type: Type }>;
}

/** Converts an event that any release stored to the current version of its type. @throws UnknownEventError */
export function currentEvent(stored: NewEvent): VaultEvent {
  const { version, data } = eventRegistry.upcast(stored.type, stored.version, stored.data);
  // eslint-disable-next-line no-restricted-syntax -- Upcasters end at the current version, and the schema was checked before the event was stored.
  return { ...stored, version, data } as unknown as VaultEvent;
}

/** The types of events that carry a signature of the state after the event. */
export const signedEventTypes: ReadonlySet<string> = new Set(
  eventDefinitions.filter(({ schema }) => 'signature' in schema.shape).map(({ type }) => type),
);

export const eventRegistry = new EventRegistry(eventDefinitions);
