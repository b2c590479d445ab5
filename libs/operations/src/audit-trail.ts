import { streams, type EventName, type NewDataOf, type VaultEventType } from '@token-vault/contracts';
import type { EventStore, Position } from '@token-vault/event-store';
import type { RequestContext } from './request-context.ts';

export interface AuditTrail {
  /**
   * Appends the record of an access durably. Await it before anything of the data is shown: when it throws
   * (EventStoreUnavailableError → 503) the caller must get nothing.
   */
  record<Type extends VaultEventType>(
    context: RequestContext,
    name: EventName<Type>,
    data: NewDataOf<Type>,
  ): Promise<Position>;
}

/** Reads and refusals go to one stream per tenant and day, so that no stream grows without end. */
export function createAuditTrail(store: EventStore): AuditTrail {
  return {
    async record(context, name, data) {
      const { tenant_id: tenantId, occurred_at: occurredAt } = context.metadata;
      const stream = streams.access(tenantId, occurredAt.slice(0, 10));
      const { position } = await store.append(stream, [context.event(name, data)], 'any');
      return position;
    },
  };
}
