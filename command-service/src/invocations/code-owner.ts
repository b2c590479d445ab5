import {
  ApplicationCreated,
  ApplicationDeleted,
  ForbiddenError,
  NotFoundError,
  ReactorCreated,
  ReactorDeleted,
  ReactorUpdated,
  streams,
  type CodeOwner,
} from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import { readEntity, type EventStore, type RecordedEvent } from '@token-vault/event-store';
import type { Clock } from '@token-vault/operations';
import { createProxyFinder } from '../proxies/load.ts';

/**
 * The refusal when code is gone that ran, or still runs. It names the code. Its deletion withdraws the data that it was given.
 * @param since when the run was asked for
 */
export type RefuseOwner = (
  tenantId: string,
  owner: CodeOwner,
  since: Date,
) => Promise<ForbiddenError | undefined>;

interface OwnerDependencies {
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  readonly clock: Clock;
}

/** The first event of the stream, or the last. Undefined for a stream that does not exist. */
async function eventAt(
  store: Pick<EventStore, 'readStream'>,
  stream: string,
  end: 'first' | 'last',
): Promise<RecordedEvent | undefined> {
  for await (const event of store.readStream(stream, { backwards: end === 'last', maxCount: 1 }))
    return event;
  return undefined;
}

/** Whether the application was there at `since`, and was deleted or has expired since then. Its expiry never changes. */
async function hasEnded(
  { store, clock }: Pick<OwnerDependencies, 'store' | 'clock'>,
  tenantId: string,
  applicationId: string,
  since: Date,
): Promise<boolean> {
  const stream = streams.application(tenantId, applicationId);
  const [first, last] = await Promise.all([eventAt(store, stream, 'first'), eventAt(store, stream, 'last')]);
  const expires = first?.type === ApplicationCreated.type ? first.data.expires_at : undefined;
  const expiry = expires === undefined ? Infinity : Date.parse(expires);
  const deletion = last?.type === ApplicationDeleted.type ? Date.parse(last.metadata.occurred_at) : Infinity;
  // The clock of the process that deleted it may be ahead.
  const end = Math.min(expiry <= clock.now().getTime() ? expiry : Infinity, deletion);
  return end !== Infinity && end >= since.getTime();
}

export function createOwnerDecision({ store, keyRing, clock }: OwnerDependencies): RefuseOwner {
  const findProxy = createProxyFinder({ store, keyRing });

  /**
   * The run goes on when the code was changed. It ends when the code lost its application, or when that was deleted. A run that was asked for
   * afterwards has no application from its beginning.
   */
  async function refuseReactor(
    tenantId: string,
    { reactorId, revision }: Extract<CodeOwner, { reactorId: string }>,
    since: Date,
  ): Promise<ForbiddenError | undefined> {
    const refused = (detail: string) => new ForbiddenError(detail, { type: 'reactor', id: reactorId });
    let applicationOfRun: string | undefined;
    let isFound = false;
    // The event at the revision may only sign the content of the event before it (an upgrade).
    const from = Math.max(0, revision - 1);
    const stream = streams.reactor(tenantId, reactorId);
    for await (const event of readEntity(store, stream, { from })) {
      if (event.type === ReactorDeleted.type) return refused('The reactor was deleted.');
      if (event.type !== ReactorCreated.type && event.type !== ReactorUpdated.type) continue;
      const { application_id: applicationId } = event.data;
      if (isFound && event.revision > revision && applicationId !== applicationOfRun)
        return refused('The reactor has another application, or none, since the run was asked for.');
      applicationOfRun = applicationId;
      isFound = true;
    }
    if (
      applicationOfRun !== undefined &&
      (await hasEnded({ store, clock }, tenantId, applicationOfRun, since))
    )
      return refused('The application of the reactor is gone.');
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
    const refused = (detail: string) => new ForbiddenError(detail, { type: 'proxy', id: proxyId });
    const gone = () => refused('The proxy, or its key, was changed or deleted.');
    if (found?.settingsRevision !== revision) return gone();
    const key = found.details.keys.find(({ id }) => id === keyId);
    if (keyId !== undefined && !key) return gone();
    const end = key?.expires_at;
    const isOver = end !== undefined && Date.parse(end) <= clock.now().getTime();
    return isOver ? refused('The key of the proxy has expired.') : undefined;
  }

  return (tenantId, owner, since) =>
    'reactorId' in owner ? refuseReactor(tenantId, owner, since) : refuseProxy(tenantId, owner);
}
