import { can, explainTokenAccess } from '@token-vault/access';
import {
  EntitiesRead,
  entityTypeOfToken,
  ForbiddenError,
  maxMatrixContainers,
  NotFoundError,
  tokenPermissions,
} from '@token-vault/contracts';
import type { AuditTrail, HandlersOf, RequestContext } from '@token-vault/operations';
import { createApplications, type ApplicationRow, type ApplicationSources } from '../applications/queries.ts';
import { requireSignedRows } from '../tokens/signed-rows.ts';
import type { TokenRow } from '../tokens/row.ts';
import type { SingleReads } from '../tokens/single-reads.ts';
import { callerOf, matrixRows, named } from './matrix.ts';
import { listContainers } from './queries.ts';

export interface AccessDependencies extends ApplicationSources {
  readonly audit: AuditTrail;
  readonly singleReads: SingleReads;
}

const recordApplications = (
  audit: AuditTrail,
  context: RequestContext,
  operation: 'list' | 'read',
  ids: readonly string[],
) => audit.record(context, EntitiesRead, { entity_type: 'application', operation, entity_ids: ids });

/** The decision about each operation of the application on the token. */
function explanation(
  row: ApplicationRow,
  { id, type, container }: Pick<TokenRow, 'id' | 'type' | 'container'>,
  context: RequestContext,
) {
  const containers = [container];
  const caller = callerOf(row, context.principal.tenant);
  const operations = tokenPermissions.map((permission) => ({
    permission,
    ...explainTokenAccess(caller, permission, { id, containers }),
  }));
  return { application: named(row), token: { id, type, containers }, operations };
}

/** The access matrix: decisions of libs/access for all applications and containers. */
export function createAccessHandlers(
  dependencies: AccessDependencies,
): Pick<HandlersOf<'query'>, 'getAccessMatrix' | 'explainAccess'> {
  const { reads, keyRing, audit, singleReads } = dependencies;
  const applications = createApplications(dependencies);

  return {
    async getAccessMatrix({ query }, context) {
      const { id: tenantId } = context.principal.tenant;
      const reader = reads.of(context);
      const [found, { pagination, data }] = await Promise.all([
        listContainers(reader, tenantId, query.container),
        applications.list(context, { ids: query.id, types: query.type }, query),
      ]);
      const containers = found.slice(0, maxMatrixContainers);
      await recordApplications(
        audit,
        context,
        'list',
        data.map(({ id }) => id),
      );
      const rows = await matrixRows(data, containers, context);
      const isCut = found.length > maxMatrixContainers;
      return { body: { pagination, containers, more_containers: isCut, data: rows } };
    },

    async explainAccess({ params, query }, context) {
      const { principal, now } = context;
      // The answer reveals that a token exists, and its container. A reader of the log can see every token there.
      if (!can(principal, 'log:read')) throw new ForbiddenError('The caller lacks the permission log:read.');
      const row = await applications.find({ tenantId: principal.tenant.id, now }, params.id);
      if (!row) throw new NotFoundError('Application');
      await recordApplications(audit, context, 'read', [row.id]);
      const token = await singleReads.run(context, query.token_id, async (whole) => {
        await requireSignedRows(keyRing, principal.tenant, [whole]);
        return { id: whole.id, type: whole.type, container: whole.container };
      });
      await audit.record(context, EntitiesRead, {
        entity_type: entityTypeOfToken(token.type),
        operation: 'read',
        entity_ids: [token.id],
      });
      return { body: explanation(row, token, context) };
    },
  };
}
