import {
  newId,
  streams,
  type EventName,
  type NewDataOf,
  type VaultEvent,
  type VaultEventType,
} from '@token-vault/contracts';
import type { EventStore, Position } from '@token-vault/event-store';
import type { RequestContext } from './request-context.ts';

export interface AuditTrail {
  /**
   * Appends the record of an access durably. Await it before any of the data is shown. When it throws (EventStoreUnavailableError → 503),
   * the caller must not get any data.
   */
  record<Type extends VaultEventType>(
    context: RequestContext,
    name: EventName<Type>,
    data: NewDataOf<Type>,
  ): Promise<Position>;
  /** The same for several records, made by the context: all of them or none. Equal refusals of one run of code are recorded once. */
  recordAll(context: RequestContext, events: readonly VaultEvent[]): Promise<Position>;
}

/**
 * The event with an id of its own. The ids of a context are the same when a request is repeated under its key. A store takes a known id in the
 * stream as an event that it has: the repeat may read another token, and its record would be lost.
 */
const asNew = (event: VaultEvent): VaultEvent => ({ ...event, id: newId() });

/** Reads and refusals go to one stream for each tenant and day, so no stream grows without limit. */
export function createAuditTrail(store: EventStore): AuditTrail {
  const recordAll: AuditTrail['recordAll'] = async ({ metadata, refusals }, events) => {
    const { tenant_id: tenantId, occurred_at: occurredAt } = metadata;
    const stream = streams.access(tenantId, occurredAt.slice(0, 10));
    const append = async (some: readonly VaultEvent[]) =>
      (await store.append(stream, some.map(asNew), 'any')).position;
    return refusals ? refusals.append(events, append) : append(events);
  };
  return { recordAll, record: (context, name, data) => recordAll(context, [context.event(name, data)]) };
}
