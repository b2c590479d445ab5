import {
  ForbiddenError,
  NotFoundError,
  ReactorDeleted,
  streams,
  type CodeOwner,
} from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import type { Clock } from '@token-vault/operations';
import { createProxyFinder } from '../proxies/load.ts';

/** The refusal when code is gone that ran, or still runs. Its deletion withdraws the data that it was given. */
export type RefuseOwner = (tenantId: string, owner: CodeOwner) => Promise<ForbiddenError | undefined>;

export function createOwnerDecision({
  store,
  keyRing,
  clock,
}: {
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  readonly clock: Clock;
}): RefuseOwner {
  const findProxy = createProxyFinder({ store, keyRing });

  /** The deletion is the last event of a reactor. */
  async function refuseReactor(tenantId: string, reactorId: string): Promise<ForbiddenError | undefined> {
    const stream = streams.reactor(tenantId, reactorId);
    for await (const { type } of store.readStream(stream, { backwards: true, maxCount: 1 }))
      if (type === ReactorDeleted.type) return new ForbiddenError('The reactor was deleted.');
    return undefined;
  }

  async function refuseProxy(
    tenantId: string,
    { proxyId, revision, keyId }: Extract<CodeOwner, { proxyId: string }>,
  ): Promise<ForbiddenError | undefined> {
    const found = await findProxy(tenantId, proxyId).catch((error: unknown) => {
      if (error instanceof NotFoundError) return undefined;
      throw error;
    });
    if (found?.revision !== revision) return new ForbiddenError('The proxy was changed or deleted.');
    const end = found.details.keys.find(({ id }) => id === keyId)?.expires_at;
    const isOver = end !== undefined && Date.parse(end) <= clock.now().getTime();
    return isOver ? new ForbiddenError('The key of the proxy has expired.') : undefined;
  }

  return (tenantId, owner) =>
    'reactorId' in owner ? refuseReactor(tenantId, owner.reactorId) : refuseProxy(tenantId, owner);
}
