import type { Principal, TenantContext } from '@token-vault/access';
import {
  ApplicationKeyRegenerated,
  ConsoleSessionOpened,
  isPermissionAllowed,
  SessionOpened,
  streams,
  type Actor,
  type DataOf,
} from '@token-vault/contracts';
import { comparePositions, type Position } from '@token-vault/event-store';
import type { Asked } from '@token-vault/reactor-runner';
import { createCallers, type CallerDependencies } from '@token-vault/authentication';
import { systemClock, type Clock } from '@token-vault/operations';
import type { ReadModelWatch } from '@token-vault/read-models';
import type { ReadModels } from '../data.ts';

/**
 * The principals of reactor code and of its invokers. They are read at each use, so a deleted or expired application
 * stops at once.
 * @throws UnavailableError when the read models of callers have stopped; AlteredRecordError
 */
export interface Principals {
  tenant(tenantId: string): Promise<TenantContext | undefined>;
  application(tenantId: string, applicationId: string): Promise<Principal | undefined>;
  /** An application or a session, whatever key it has. */
  byActor(tenantId: string, actor: Actor): Promise<Principal | undefined>;
  /** The `Principal.applicationId` of an actor, also of one that has ended. Of a session: the application that opened it. */
  applicationIdOf(tenantId: string, actor: Actor): Promise<string>;
  /**
   * The application or session that invoked the reactor, with its present rights. Undefined when it has ended, or
   * when its key was regenerated after the request: an invocation of an old key opens nothing (rules.md §6).
   */
  invoker(tenantId: string, actor: Actor, asked: Asked): Promise<Principal | undefined>;
}

/** Finds applications and sessions with their present rights, whatever key they have. */
export function actorFinder({
  readPool: pool,
  store,
  keyRing,
  watch,
}: ReadModels & Pick<CallerDependencies, 'keyRing'>): Principals['byActor'] {
  const principals = createPrincipals({ pool, store, keyRing, clock: systemClock, watch });
  return (...asked) => principals.byActor(...asked);
}

/**
 * For invocations of a release that did not sign the key. Reads from the end of the stream, where usually one event
 * is enough.
 */
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

const applicationForTokens = ({ members }: DataOf<'ConsoleSessionOpened'>): string | undefined =>
  members.find(({ application_type: type }) => isPermissionAllowed('token:use', type))?.application_id;

export function createPrincipals(
  dependencies: CallerDependencies & {
    readonly clock: Clock;
    readonly watch: Pick<ReadModelWatch, 'current'>;
  },
): Principals {
  const { clock, watch, store } = dependencies;
  const callers = createCallers(dependencies);
  const find = (tenantId: string, actor: Actor, keyHash?: string) =>
    watch.current(async ({ generation }) => {
      const caller = await callers.byActor(tenantId, actor, keyHash);
      const found = caller && clock.now().getTime() < caller.expiresAt ? caller.principal : undefined;
      return { found, generation, streams: caller?.streams ?? [] };
    });

  return {
    tenant: (tenantId) =>
      watch.current(async ({ generation }) => {
        const found = await callers.tenant(tenantId);
        return { found, generation, streams: [streams.tenant(tenantId)] };
      }),
    async applicationIdOf(tenantId, { kind, id }) {
      if (kind !== 'session') return id;
      for await (const { type, data } of store.readStream(streams.session(tenantId, id), { maxCount: 1 }))
        if (type === SessionOpened.type) return data.application_id;
      const signedIn = store.readStream(streams.consoleSession(tenantId, id), { maxCount: 1 });
      for await (const { type, data } of signedIn)
        if (type === ConsoleSessionOpened.type) return applicationForTokens(data) ?? id;
      return id;
    },
    application: (tenantId, id) => find(tenantId, { kind: 'application', id }),
    byActor: (tenantId, actor) => find(tenantId, actor),
    async invoker(tenantId, actor, { keyHash, position }) {
      const isUnnamed = keyHash === undefined && actor.kind === 'application';
      if (isUnnamed && position !== undefined && (await isKeyNewer(store, tenantId, actor.id, position)))
        return undefined;
      return find(tenantId, actor, keyHash);
    },
  };
}
