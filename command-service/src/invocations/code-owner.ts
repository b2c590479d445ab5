import {
  ForbiddenError,
  NotFoundError,
  ReactorCreated,
  ReactorDeleted,
  ReactorUpdated,
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

  /** The run goes on when the code was changed, and ends when the code lost its application. */
  async function refuseReactor(
    tenantId: string,
    { reactorId, revision }: Extract<CodeOwner, { reactorId: string }>,
  ): Promise<ForbiddenError | undefined> {
    let applicationOfRun: string | undefined;
    let isFound = false;
    // The event at the revision may only sign the content of the event before it (an upgrade).
    const from = Math.max(0, revision - 1);
    for await (const event of store.readStream(streams.reactor(tenantId, reactorId), { from })) {
      if (event.type === ReactorDeleted.type) return new ForbiddenError('The reactor was deleted.');
      if (event.type !== ReactorCreated.type && event.type !== ReactorUpdated.type) continue;
      const { application_id: applicationId } = event.data;
      if (isFound && event.revision > revision && applicationId !== applicationOfRun)
        return new ForbiddenError(
          'The reactor has another application, or none, since the run was asked for.',
        );
      applicationOfRun = applicationId;
      isFound = true;
    }
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
    const gone = () => new ForbiddenError('The proxy, or its key, was changed or deleted.');
    if (found?.settingsRevision !== revision) return gone();
    const key = found.details.keys.find(({ id }) => id === keyId);
    if (keyId !== undefined && !key) return gone();
    const end = key?.expires_at;
    const isOver = end !== undefined && Date.parse(end) <= clock.now().getTime();
    return isOver ? new ForbiddenError('The key of the proxy has expired.') : undefined;
  }

  return (tenantId, owner) =>
    'reactorId' in owner ? refuseReactor(tenantId, owner) : refuseProxy(tenantId, owner);
}
