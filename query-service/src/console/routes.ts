import { EntitiesRead, ForbiddenError, streams, type ConsoleOverview } from '@token-vault/contracts';
import type { EventStore } from '@token-vault/event-store';
import type { AuditTrail, HandlersOf, RequestContext } from '@token-vault/operations';
import type { FairReads, Reader } from '../fair-reads.ts';
import { countEntriesAfter, countLastHour, countWaitingRuns, readRates } from './queries.ts';
import type { VaultState } from './vault-state.ts';

export interface ConsoleDependencies {
  readonly reads: FairReads;
  readonly store: Pick<EventStore, 'readStream'>;
  readonly audit: AuditTrail;
  readonly vault?: VaultState | undefined;
}

/** The entries after a checkpoint are counted from this time before its signature on: an event after it may be older than the signature. */
const signedWithinMs = 24 * 60 * 60 * 1000;

async function auditOf(
  store: ConsoleDependencies['store'],
  reader: Reader,
  tenantId: string,
): Promise<ConsoleOverview['audit']> {
  const latest = { backwards: true, maxCount: 1 };
  for await (const event of store.readStream(streams.audit(tenantId), latest)) {
    if (event.type !== 'AuditCheckpointSigned') break;
    const { occurred_at: signedAt } = event.metadata;
    const { through, count: events } = event.data;
    const since = new Date(Date.parse(signedAt) - signedWithinMs);
    const unsigned = await countEntriesAfter(reader, tenantId, through, since);
    return { checkpoint: { signed_at: signedAt, through, events }, unsigned_entries: unsigned };
  }
  return { unsigned_entries: await countEntriesAfter(reader, tenantId, '0', new Date(0)) };
}

async function overviewOf(
  { reads, store, vault }: Omit<ConsoleDependencies, 'audit'>,
  context: RequestContext,
): Promise<ConsoleOverview> {
  const { now, principal } = context;
  const { id: tenantId } = principal.tenant;
  const reader = reads.of(context);
  const [rates, waiting, projections, sealed, lastHour] = await Promise.all([
    readRates(reader, tenantId, now),
    countWaitingRuns(reader, tenantId),
    vault?.projections() ?? [],
    auditOf(store, reader, tenantId),
    countLastHour(reader, tenantId, now),
  ]);
  return {
    at: now.toISOString(),
    rates,
    runs_waiting: waiting,
    projections,
    audit: sealed,
    last_hour: [...lastHour],
  };
}

/** The state of a tenant, and the state of the vault for the tenant that operates it (docs/reference/console.md). */
export function createConsoleHandlers({
  reads,
  store,
  audit,
  vault,
}: ConsoleDependencies): Pick<HandlersOf<'query'>, 'getConsoleOverview' | 'getVaultOperations'> {
  return {
    async getConsoleOverview(_input, context) {
      const overview = await overviewOf({ reads, store, vault }, context);
      await audit.record(context, EntitiesRead, { entity_type: 'log', operation: 'read', entity_ids: [] });
      return { body: overview };
    },

    async getVaultOperations(_input, context) {
      const { id: tenantId } = context.principal.tenant;
      if (!vault || !(await vault.isOperator(tenantId)))
        throw new ForbiddenError('Only the tenant that operates the vault can see this.');
      const state = await vault.describe();
      await audit.record(context, EntitiesRead, {
        entity_type: 'tenant',
        operation: 'read',
        entity_ids: [tenantId],
      });
      return { body: { at: context.now.toISOString(), ...state } };
    },
  };
}
