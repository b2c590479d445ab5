import { EntitiesRead, NotFoundError, reactorStatement, type Reactor } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { AuditTrail, HandlersOf, RequestContext } from '@token-vault/operations';
import type { Pool } from 'pg';
import type { FairReads } from '../fair-reads.ts';
import { requireSigned, type SignedRow } from '../signed-rows.ts';
import { openConfiguration } from './configuration.ts';
import { findReactor, listReactors, type ReactorRow } from './queries.ts';

export interface ReactorDependencies {
  readonly pool: Pool;
  readonly reads: FairReads;
  readonly keyRing: Pick<KeyRing, 'open' | 'hashes'>;
  readonly audit: AuditTrail;
}

/** The application as answers show it. Its name and type are unset when it is deleted or expired. */
export const applicationOf = ({
  application_id: id,
  application_name: name,
  application_type: type,
}: Pick<ReactorRow, 'application_id' | 'application_name' | 'application_type'>): Reactor['application'] =>
  id === null ? undefined : { id, name: name ?? undefined, type: type ?? undefined };

const signed = (row: ReactorRow): SignedRow => ({
  statement: reactorStatement({ ...row, applicationId: row.application_id }),
  signature: row.signature,
});

type ReactorQueries = Pick<HandlersOf<'query'>, 'getReactor' | 'listReactors'>;

export function createReactorHandlers({ pool, reads, keyRing, audit }: ReactorDependencies): ReactorQueries {
  /** A configuration holds credentials of third parties, so it is recorded before it is shown, as token data is. */
  async function show(
    rows: readonly ReactorRow[],
    context: RequestContext,
    operation: 'read' | 'list',
  ): Promise<Reactor[]> {
    await requireSigned(keyRing, context.principal.tenant.id, rows.map(signed));
    const entityIds = rows.map(({ id }) => id);
    const [shown] = await Promise.all([
      Promise.all(rows.map(showOne)),
      audit.record(context, EntitiesRead, { entity_type: 'reactor', operation, entity_ids: entityIds }),
    ]);
    return shown.filter((reactor) => reactor !== undefined);
  }

  async function showOne(row: ReactorRow): Promise<Reactor | undefined> {
    const configuration = await openConfiguration(keyRing, 'reactor', row);
    return configuration && present(row, configuration.expose());
  }

  return {
    async getReactor({ params }, context) {
      const row = await findReactor(pool, context.principal.tenant.id, params.id, context.now);
      if (!row) throw new NotFoundError('Reactor');
      const [shown] = await show([row], context, 'read');
      if (!shown) throw new NotFoundError('Reactor');
      return { body: shown };
    },

    async listReactors({ query }, context) {
      const { tenant } = context.principal;
      const filters = { ids: query.id, name: query.name };
      const { pagination, data } = await listReactors(
        reads.of(context),
        { tenantId: tenant.id, now: context.now },
        filters,
        query,
      );
      return { body: { pagination, data: await show(data, context, 'list') } };
    },
  };
}

function present(row: ReactorRow, configuration: Record<string, string>): Reactor {
  return {
    id: row.id,
    tenant_id: row.tenant_id,
    name: row.name,
    code: row.code,
    configuration,
    application: applicationOf(row),
    created_by: row.created_by ?? undefined,
    created_at: row.created_at.toISOString(),
    modified_by: row.modified_by ?? undefined,
    modified_at: row.modified_at?.toISOString(),
  };
}
