import type { Principal, TenantContext } from '@token-vault/access';
import type { Actor } from '@token-vault/contracts';
import {
  createCallers,
  type CallerDependencies,
  type Clock,
  type ReadModelWatch,
} from '@token-vault/service-kit';

/**
 * Whom reactors act as, and in whose name they run. Read at each use: a deleted or expired application stops at once.
 * @throws UnavailableError when the read models that callers are made of stand still; AlteredRecordError
 */
export interface Principals {
  tenant(tenantId: string): Promise<TenantContext | undefined>;
  application(tenantId: string, applicationId: string): Promise<Principal | undefined>;
  /** An application or a session, with the rights of this moment; undefined when it is no more. */
  actor(tenantId: string, actor: Actor): Promise<Principal | undefined>;
}

export function createPrincipals(
  dependencies: CallerDependencies & {
    readonly clock: Clock;
    readonly watch: Pick<ReadModelWatch, 'current'>;
  },
): Principals {
  const { clock, watch } = dependencies;
  const callers = createCallers(dependencies);
  const find = (tenantId: string, actor: Actor) =>
    watch.current(async () => {
      const caller = await callers.byActor(tenantId, actor);
      return caller && clock.now().getTime() < caller.expiresAt ? caller.principal : undefined;
    });

  return {
    tenant: (tenantId) => watch.current(() => callers.tenant(tenantId)),
    application: (tenantId, id) => find(tenantId, { kind: 'application', id }),
    actor: find,
  };
}
