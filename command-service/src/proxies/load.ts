import { ProxyCreated, ProxyUpdated, revisionOf, streams } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import { noRevision, readEntity, type EventStore } from '@token-vault/event-store';
import { load } from '../aggregates/decider.ts';
import { requireSigned } from '../aggregates/signing.ts';
import { createConfigurations, type Configuration } from '../reactors/configuration.ts';
import { proxyDecider, requireActive } from './decider.ts';
import { initialState, proxySigner, type ProxyDetails, type ProxyState } from './state.ts';

export interface LoadedProxy {
  readonly details: ProxyDetails;
  readonly revision: number;
}

interface ProxyLog {
  readonly store: Pick<EventStore, 'readStream'>;
  readonly keyRing: Pick<KeyRing, 'hashes'>;
}

/**
 * A proxy of the log. Its signature is checked, because it says where plaintext goes (ADR 20).
 * @throws NotFoundError, AlteredRecordError
 */
export async function loadProxy(
  { store, keyRing }: ProxyLog,
  tenantId: string,
  id: string,
): Promise<LoadedProxy> {
  const { state, revision } = await load(store, streams.proxy(tenantId, id), proxyDecider);
  const details = requireActive(state);
  requireSigned(proxySigner, state, await keyRing.hashes(tenantId));
  return { details, revision };
}

/** A proxy that is used. */
interface FoundProxy extends LoadedProxy {
  /** The revision of the event that set its settings last. Its keys are no settings. */
  readonly settingsRevision: number;
  /** @throws NotFoundError when the proxy was deleted meanwhile */
  readonly configuration: () => Promise<Configuration>;
}
/** @throws NotFoundError, AlteredRecordError */
export type ProxyFinder = (tenantId: string, id: string) => Promise<FoundProxy>;

interface Known {
  readonly state: ProxyState;
  readonly revision: number;
  readonly settingsRevision: number;
}

const keptStates = 500;

/**
 * Finds proxies as the log has them at this moment. The state at a revision never changes, so of a stream that was read before only newer
 * events are read.
 */
export function createProxyFinder({
  store,
  keyRing,
}: {
  readonly store: EventStore;
  readonly keyRing: KeyRing;
}): ProxyFinder {
  const known = new Map<string, Known>();
  const configurations = createConfigurations(keyRing, 'proxy');

  return async (tenantId, id) => {
    const stream = streams.proxy(tenantId, id);
    const before = known.get(stream) ?? {
      state: initialState,
      revision: noRevision,
      settingsRevision: noRevision,
    };
    let { state, revision, settingsRevision } = before;
    for await (const event of readEntity(store, stream, { from: before.revision + 1 })) {
      state = proxyDecider.evolve(state, event);
      revision = event.revision;
      if (event.type === ProxyCreated.type || event.type === ProxyUpdated.type) settingsRevision = revision;
    }
    const details = requireActive(state);
    if (revision !== before.revision) {
      requireSigned(proxySigner, state, await keyRing.hashes(tenantId));
      // An event without a signature may stand where an attacker hides another one for a moment.
      if (revisionOf(proxySigner.signatureOf(state)) === revision) {
        if (known.size >= keptStates) known.clear();
        known.set(stream, { state, revision, settingsRevision });
      }
    }
    const configuration = async () =>
      (await configurations.open(tenantId, id, details.configuration)).expose();
    return { details, revision, settingsRevision, configuration };
  };
}
