import { streams } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import { load } from '../aggregates/decider.ts';
import { requireSigned } from '../aggregates/signing.ts';
import { proxyDecider, requireActive } from './decider.ts';
import { proxySigner, type ProxyDetails } from './state.ts';

export interface LoadedProxy {
  readonly details: ProxyDetails;
  readonly revision: number;
}

/**
 * A proxy of the log. Its signature is checked, because it says where plaintext goes (ADR 20).
 * @throws NotFoundError, AlteredRecordError
 */
export async function loadProxy(
  { store, keyRing }: { readonly store: EventStore; readonly keyRing: Pick<KeyRing, 'hashes'> },
  tenantId: string,
  id: string,
): Promise<LoadedProxy> {
  const { state, revision } = await load(store, streams.proxy(tenantId, id), proxyDecider);
  const details = requireActive(state);
  requireSigned(proxySigner, state, await keyRing.hashes(tenantId));
  return { details, revision };
}
