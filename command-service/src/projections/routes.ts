import {
  authenticationReadModels,
  ConflictError,
  ForbiddenError,
  NotFoundError,
  ProjectionCommanded,
  readModelNames,
  type ProjectionAction,
} from '@token-vault/contracts';
import type { AuditTrail, Handlers } from '@token-vault/operations';

/** The commands of the tenant that operates the vault (docs/reference/console.md). */
export interface VaultOperator {
  isOperator(tenantId: string): Promise<boolean>;
  /** Carries the command out, or begins it. Gives what it is about; undefined when there is nothing to do. */
  commandProjection(name: string, action: ProjectionAction): Promise<'rebuild' | 'live' | undefined>;
}

const names: readonly string[] = readModelNames;
const ofCallers: readonly string[] = authenticationReadModels;

/** Projections serve every tenant, so only the tenant of the operator gives them commands. */
export function projectionRoutes({
  audit,
  operator,
}: {
  readonly audit: AuditTrail;
  readonly operator?: VaultOperator | undefined;
}) {
  return {
    async commandProjection({ params: { name }, body: { action } }, context) {
      if (!operator || !(await operator.isOperator(context.principal.tenant.id)))
        throw new ForbiddenError('Only the tenant that operates the vault can do this.');
      if (!names.includes(name)) throw new NotFoundError('The projection');
      // Callers are known by these: the request that resumes one would be refused too.
      if (action === 'pause' && ofCallers.includes(name))
        throw new ConflictError('conflict', 'Pausing it would stop every request. Use the command line.');
      await audit.record(context, ProjectionCommanded, { projection: name, action });
      const target = await operator.commandProjection(name, action);
      if (target === undefined) throw new ConflictError('conflict', `There is nothing to ${action}.`);
      return { body: { name, action, target } };
    },
  } satisfies Handlers;
}
