import { EntitiesRead, NotFoundError, UnavailableError, type Invocation } from '@token-vault/contracts';
import type { EventStore } from '@token-vault/event-store';
import type { AuditTrail, HandlersOf, RequestContext } from '@token-vault/operations';
import type { FairReads, Reader } from '../fair-reads.ts';
import type { WaitForProjections } from '../logs/routes.ts';
import { readConsole, type ConsoleDependencies } from './console.ts';
import { attemptsOf, findRun, listRuns, type AttemptRow, type RunRow } from './queries.ts';

export interface InvocationDependencies extends ConsoleDependencies {
  readonly reads: FairReads;
  readonly store: Pick<EventStore, 'head' | 'readStream'>;
  readonly audit: AuditTrail;
  readonly waitForProjections?: WaitForProjections | undefined;
}

/** Longer than a running projection needs to apply an event. */
const waitForRunsMs = 2_000;

type InvocationQueries = Pick<HandlersOf<'query'>, 'getInvocation' | 'listInvocations'>;

/** Runs of reactors. An answer contains neither arguments nor results. `readConsole` decides which printed lines it contains. */
export function createInvocationHandlers(dependencies: InvocationDependencies): InvocationQueries {
  const { reads, store, audit, waitForProjections } = dependencies;

  /** Waits for the read model, because the answer to `react` does not wait for it. False when the read model may be behind. */
  const waitForRuns = async (context: RequestContext): Promise<boolean> => {
    if (!waitForProjections) return true;
    const head = await store.head();
    return context.outOfTurn(() => waitForProjections(head, waitForRunsMs, ['runs']));
  };

  async function show(
    reader: Reader,
    rows: readonly RunRow[],
    context: RequestContext,
    operation: 'read' | 'list',
  ): Promise<Invocation[]> {
    const reactorIds = [...new Set(rows.map((row) => row.reactor_id))];
    const [attempts] = await Promise.all([
      attemptsOf(reader, context.principal.tenant.id, rows),
      audit.record(context, EntitiesRead, { entity_type: 'reactor', operation, entity_ids: reactorIds }),
    ]);
    return rows.map((row) =>
      present(
        row,
        attempts.filter(({ run_id: id }) => id === row.id),
      ),
    );
  }

  return {
    async getInvocation({ params: { invocation_id: id } }, context) {
      const { id: tenantId } = context.principal.tenant;
      const reader = reads.of(context);
      const isComplete = await waitForRuns(context);
      const row = await findRun(reader, tenantId, id);
      if (!row && !isComplete)
        throw new UnavailableError('The read models may not show the run yet; try again.');
      if (!row) throw new NotFoundError('Invocation');
      const [run] = await show(reader, [row], context, 'read');
      return { body: run && { ...run, ...(await readConsole(dependencies, row, context)) } };
    },

    async listInvocations({ query }, context) {
      const { id: tenantId } = context.principal.tenant;
      const reader = reads.of(context);
      await waitForRuns(context);
      const filters = { reactorId: query.reactor_id, state: query.state };
      const { pagination, data } = await listRuns(reader, tenantId, filters, query);
      return { body: { pagination, data: await show(reader, data, context, 'list') } };
    },
  };
}

function present(row: RunRow, attempts: readonly AttemptRow[]): Invocation {
  const { started_at: startedAt, ended_at: endedAt, status, reason, delivery } = row;
  return {
    id: row.id,
    tenant_id: row.tenant_id,
    reactor: { id: row.reactor_id },
    mode: row.mode,
    state: row.state,
    invoked_by: row.invoked_by,
    invoked_at: row.invoked_at.toISOString(),
    started_at: startedAt?.toISOString(),
    ended_at: endedAt?.toISOString(),
    duration_ms: startedAt && endedAt ? endedAt.getTime() - startedAt.getTime() : undefined,
    error: status === null || reason === null ? undefined : { status, class: reason },
    delivery:
      delivery === null
        ? undefined
        : { state: delivery, next_at: row.next_at?.toISOString(), attempts: attempts.map(presentAttempt) },
  };
}

const presentAttempt = ({ number, attempted_at: at, reason }: AttemptRow) => ({
  number,
  attempted_at: at.toISOString(),
  reason: reason ?? undefined,
});
