import type { Principal, TenantContext } from '@token-vault/access';
import { ApplicationKeyRegenerated, streams, type Actor } from '@token-vault/contracts';
import { comparePositions, type Position } from '@token-vault/event-store';
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
  /**
   * An application or a session, with the rights of this moment; undefined when it is no more, or its key was regenerated after it asked:
   * what a key has queued opens nothing once the key is no more (rules.md §6).
   */
  invoker(tenantId: string, actor: Actor, askedAt: Position): Promise<Principal | undefined>;
}

/** From the end of the stream: as a rule its last event is older. */
async function isKeyNewer(
  store: CallerDependencies['store'],
  tenantId: string,
  applicationId: string,
  than: Position,
): Promise<boolean> {
  const stream = streams.application(tenantId, applicationId);
  for await (const { type, position } of store.readStream(stream, { backwards: true })) {
    if (comparePositions(position, than) < 0) return false;
    if (type === ApplicationKeyRegenerated.type) return true;
  }
  return false;
}

export function createPrincipals(
  dependencies: CallerDependencies & {
    readonly clock: Clock;
    readonly watch: Pick<ReadModelWatch, 'current'>;
  },
): Principals {
  const { clock, watch, store } = dependencies;
  const callers = createCallers(dependencies);
  const find = (tenantId: string, actor: Actor) =>
    watch.current(async () => {
      const caller = await callers.byActor(tenantId, actor);
      return caller && clock.now().getTime() < caller.expiresAt ? caller.principal : undefined;
    });

  return {
    tenant: (tenantId) => watch.current(() => callers.tenant(tenantId)),
    application: (tenantId, id) => find(tenantId, { kind: 'application', id }),
    async invoker(tenantId, actor, askedAt) {
      if (actor.kind === 'application' && (await isKeyNewer(store, tenantId, actor.id, askedAt)))
        return undefined;
      return find(tenantId, actor);
    },
  };
}
