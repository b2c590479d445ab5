import { EntitiesRead, NotFoundError, type Application } from '@token-vault/contracts';
import type { AuditTrail, HandlersOf, RequestContext } from '@token-vault/operations';
import { describePermissions } from './permissions.ts';
import { createApplications, type ApplicationRow, type ApplicationSources } from './queries.ts';

export interface ApplicationDependencies extends ApplicationSources {
  readonly audit: AuditTrail;
}

type ApplicationQueries = Pick<
  HandlersOf<'query'>,
  'getApplication' | 'getApplicationByKey' | 'listApplications' | 'listPermissions'
>;

export function createApplicationHandlers(dependencies: ApplicationDependencies): ApplicationQueries {
  const { audit } = dependencies;
  const applications = createApplications(dependencies);

  async function get(id: string, context: RequestContext): Promise<{ body: Application }> {
    const row = await applications.find({ tenantId: context.principal.tenant.id, now: context.now }, id);
    if (!row) throw new NotFoundError('Application');
    await audit.record(context, EntitiesRead, {
      entity_type: 'application',
      operation: 'read',
      entity_ids: [row.id],
    });
    return { body: present(row) };
  }

  return {
    getApplication: ({ params }, context) => get(params.id, context),

    // A session is answered with the application that opened the session.
    getApplicationByKey: (_input, context) => get(context.principal.applicationId, context),

    async listApplications({ query }, context) {
      const filters = { ids: query.id, types: query.type };
      const { pagination, data } = await applications.list(context, filters, query);
      await audit.record(context, EntitiesRead, {
        entity_type: 'application',
        operation: 'list',
        entity_ids: data.map(({ id }) => id),
      });
      return { body: { pagination, data: data.map(present) } };
    },

    listPermissions: async ({ query }) => ({ body: describePermissions(query.application_type) }),
  };
}

/** The answer never holds a key or its hash: only create and regenerate show a key. */
function present(row: ApplicationRow): Application {
  return {
    id: row.id,
    tenant_id: row.tenant_id,
    name: row.name,
    type: row.type,
    permissions: row.permissions,
    rules: row.rules,
    created_by: row.created_by ?? undefined,
    created_at: row.created_at.toISOString(),
    modified_by: row.modified_by ?? undefined,
    modified_at: row.modified_at?.toISOString(),
    expires_at: row.expires_at_text ?? undefined,
  };
}
