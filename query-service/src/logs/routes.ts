import { EntitiesRead, entityTypes, type LogEntry } from '@token-vault/contracts';
import type { EventStore, Position } from '@token-vault/event-store';
import type { AuditTrail, HandlersOf } from '@token-vault/service-kit';
import type { FairReads } from '../fair-reads.ts';
import { listLogs, type LogRow } from './queries.ts';

/**
 * Resolves true when the projections named (all by default) have passed `position`, false when `timeoutMs` went by first.
 */
export type WaitForProjections = (
  position: Position,
  timeoutMs: number,
  projections?: readonly string[],
) => Promise<boolean>;

export interface LogDependencies {
  readonly reads: FairReads;
  readonly store: Pick<EventStore, 'head'>;
  readonly audit: AuditTrail;
  readonly waitForProjections?: WaitForProjections | undefined;
}

/** Longer than any projection takes unless it is down; the answer is then as fresh as it can be. */
const waitForLogMs = 2000;

const displayed = (value: string): string => value.charAt(0).toUpperCase() + value.slice(1);
const entityTypeList = entityTypes
  .map((value) => ({ display_name: displayed(value), value }))
  .sort((left, right) => (left.value < right.value ? -1 : 1));

type LogQueries = Pick<HandlersOf<'query'>, 'listLogs' | 'listEntityTypes'>;

export function createLogHandlers({ reads, store, audit, waitForProjections }: LogDependencies): LogQueries {
  return {
    async listLogs({ query }, context) {
      // Reads are answered before the log shows them, so whoever looks here waits: for what was there on arrival, no more.
      const isFresh =
        !waitForProjections || (await waitForProjections(await store.head(), waitForLogMs, ['log']));
      const filters = {
        entityType: query.entity_type,
        entityId: query.entity_id,
        actorId: query.actor_id,
        operation: query.operation,
        transform: query.transform,
        request: query.request,
        traceId: query.trace_id,
        from: query.start_date,
        before: query.end_date,
      };
      const { id: tenantId } = context.principal.tenant;
      const { pagination, data } = await listLogs(reads.of(tenantId), tenantId, filters, query);
      await audit.record(context, EntitiesRead, { entity_type: 'log', operation: 'list', entity_ids: [] });
      const headers = isFresh ? {} : { 'SVC-CONSISTENCY': 'pending' };
      return { headers, body: { pagination, data: data.map(present) } };
    },

    listEntityTypes: async () => ({ body: entityTypeList }),
  };
}

function present(row: LogRow): LogEntry {
  return {
    tenant_id: row.tenant_id,
    actor_id: row.actor_id ?? undefined,
    actor_type: row.actor_type ?? undefined,
    entity_type: row.entity_type,
    entity_id: row.entity_id ?? undefined,
    operation: row.operation,
    transform: row.transform ?? undefined,
    request: row.request ?? undefined,
    trace_id: row.trace_id ?? undefined,
    message: row.message,
    created_at: row.created_at.toISOString(),
  };
}
