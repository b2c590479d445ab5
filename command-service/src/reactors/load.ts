import { streams } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import { load } from '../aggregates/decider.ts';
import { requireSigned } from '../aggregates/signing.ts';
import { reactorDecider, requireActive } from './decider.ts';
import { reactorSigner, type ReactorDetails } from './state.ts';

/**
 * A reactor of the log. Its signature is checked, because its code is given plaintext (ADR 20).
 * @throws NotFoundError, AlteredRecordError
 */
export async function loadReactor(
  { store, keyRing }: { readonly store: EventStore; readonly keyRing: Pick<KeyRing, 'hashes'> },
  tenantId: string,
  id: string,
): Promise<ReactorDetails> {
  const { state } = await load(store, streams.reactor(tenantId, id), reactorDecider);
  const details = requireActive(state);
  requireSigned(reactorSigner, state, await keyRing.hashes(tenantId));
  return details;
}
