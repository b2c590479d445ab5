import { EntitiesRead, entityTypes, type LogEntry, type LogFilterQuery } from '@token-vault/contracts';
import type { EventStore, Position } from '@token-vault/event-store';
import type { AuditTrail, HandlersOf, RequestContext } from '@token-vault/operations';
import type { FairReads } from '../fair-reads.ts';
import type { LogFilters } from './entries.ts';
import { listLogs, type LogRow } from './queries.ts';
import { requireBoundedRange, summarizeLogs } from './summary.ts';

/**
 * Resolves to true when the named projections (all by default) have passed `position`, to false after `timeoutMs`.
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

/** Longer than a running projection needs to apply an event. After this time the answer shows the present state of the read model. */
const waitForLogMs = 2000;

const displayed = (value: string): string => value.charAt(0).toUpperCase() + value.slice(1);
const entityTypeList = entityTypes
  .map((value) => ({ display_name: displayed(value), value }))
  .sort((left, right) => (left.value < right.value ? -1 : 1));

const consistency = (isFresh: boolean): Record<string, string> =>
  isFresh ? {} : { 'SVC-CONSISTENCY': 'pending' };

type LogQueries = Pick<HandlersOf<'query'>, 'listLogs' | 'summarizeLogs' | 'listEntityTypes'>;

export function createLogHandlers({ reads, store, audit, waitForProjections }: LogDependencies): LogQueries {
  // A read is answered before the log shows it. So a query of the log waits for the events that were in the store
  // when the request arrived, and for no later ones.
  const waitForLog = async (names: readonly string[], context: RequestContext): Promise<boolean> => {
    if (!waitForProjections) return true;
    const head = await store.head();
    return context.outOfTurn(() => waitForProjections(head, waitForLogMs, names));
  };
  const recordRead = (context: RequestContext) =>
    audit.record(context, EntitiesRead, { entity_type: 'log', operation: 'list', entity_ids: [] });

  return {
    async listLogs({ query }, context) {
      const isFresh = await waitForLog(['log'], context);
      const filters = filtersOf(query);
      const { id: tenantId } = context.principal.tenant;
      const { pagination, data } = await listLogs(reads.of(context), tenantId, filters, query);
      await recordRead(context);
      return { headers: consistency(isFresh), body: { pagination, data: data.map(present) } };
    },

    async summarizeLogs({ query }, context) {
      const { interval, group_by: group } = query;
      const filters = filtersOf(query);
      requireBoundedRange(interval, filters, context.now);
      const isFresh = await waitForLog(['log', 'log_summary'], context);
      const { id: tenantId } = context.principal.tenant;
      const counts = await summarizeLogs(reads.of(context), tenantId, filters, {
        interval,
        group,
      });
      await recordRead(context);
      const data = counts.map(({ start, value, count }) => ({
        start: start.toISOString(),
        value: value ?? undefined,
        count,
      }));
      const total = data.reduce((sum, { count }) => sum + count, 0);
      return {
        headers: consistency(isFresh),
        body: { interval, group_by: group, total_items: total, data },
      };
    },

    listEntityTypes: async () => ({ body: entityTypeList }),
  };
}

const filtersOf = (query: LogFilterQuery): LogFilters => ({
  entityType: query.entity_type,
  entityId: query.entity_id,
  actorId: query.actor_id,
  operation: query.operation,
  transform: query.transform,
  request: query.request,
  traceId: query.trace_id,
  reason: query.reason,
  from: query.start_date,
  before: query.end_date,
});

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
    reason: row.reason ?? undefined,
    message: row.message,
    created_at: row.created_at.toISOString(),
  };
}
