import { can, explainTokenAccess, holderOf, type Principal, shownAccess } from '@token-vault/access';
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
import { createTokenLookup } from '../tokens/lookup.ts';
import { requireSignedRows } from '../tokens/signed-rows.ts';
import { isExpired, type TokenRow } from '../tokens/row.ts';
import { listContainers } from './queries.ts';

export interface AccessDependencies extends ApplicationSources {
  readonly audit: AuditTrail;
}

/** The application as a caller, with the rules of its row. */
const callerOf = (row: ApplicationRow, { principal }: RequestContext): Principal => ({
  tenant: principal.tenant,
  actor: { kind: 'application', id: row.id },
  applicationId: row.id,
  applicationType: row.type,
  permissions: row.permissions,
  rules: [...row.rules].sort((one, other) => one.priority - other.priority),
});

const named = ({ id, name, type }: ApplicationRow) => ({ id, name, type });

const recordApplications = (
  audit: AuditTrail,
  context: RequestContext,
  operation: 'list' | 'read',
  ids: readonly string[],
) => audit.record(context, EntitiesRead, { entity_type: 'application', operation, entity_ids: ids });

/** How the data of tokens is shown to the application in each container. */
function matrixRow(row: ApplicationRow, containers: readonly string[], context: RequestContext) {
  const caller = callerOf(row, context);
  // Rules of applications depend on the container only, so the decision is the same for all its tokens.
  const access = containers.map((path) => shownAccess(caller, 'token:read', { id: '', containers: [path] }));
  return { ...named(row), access };
}

/** The decision about each operation of the application on the token. */
function explanation(row: ApplicationRow, { id, type, container }: TokenRow, context: RequestContext) {
  const containers = [container];
  const caller = callerOf(row, context);
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
  const { pool, reads, keyRing, audit } = dependencies;
  const applications = createApplications(dependencies);
  const findToken = createTokenLookup(pool);

  return {
    async getAccessMatrix({ query }, context) {
      const { id: tenantId } = context.principal.tenant;
      const reader = reads.of(holderOf(context.principal));
      const [found, { pagination, data }] = await Promise.all([
        listContainers(reader, tenantId, query.container),
        applications.list(
          { holder: holderOf(context.principal), now: context.now },
          { ids: query.id, types: query.type },
          query,
        ),
      ]);
      const containers = found.slice(0, maxMatrixContainers);
      await recordApplications(
        audit,
        context,
        'list',
        data.map(({ id }) => id),
      );
      const rows = data.map((row) => matrixRow(row, containers, context));
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
      const token = await findToken(principal.tenant.id, query.token_id);
      if (!token || isExpired(token, now)) throw new NotFoundError('Token');
      await requireSignedRows(keyRing, principal.tenant, [token]);
      await audit.record(context, EntitiesRead, {
        entity_type: entityTypeOfToken(token.type),
        operation: 'read',
        entity_ids: [token.id],
      });
      return { body: explanation(row, token, context) };
    },
  };
}
