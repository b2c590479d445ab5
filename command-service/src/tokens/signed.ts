import type { TenantContext } from '@token-vault/access';
import {
  AlteredRecordError,
  signedEventTypes,
  tokenStatementOf,
  type VaultEvent,
} from '@token-vault/contracts';
import { TenantKeysMissingError, type KeyRing } from '@token-vault/crypto';
import { noRevision } from '@token-vault/event-store';
import { signEvents, type Signer } from '../aggregates/signing.ts';
import { evolve, initialState, type TokenDetails, type TokenState } from './state.ts';

export const tokenSigner: Signer<TokenState> = {
  statementOf: (state) =>
    state.kind === 'present'
      ? tokenStatementOf(state.details.id, state.details.type, state.details.content)
      : undefined,
  signatureOf: (state) => (state.kind === 'present' ? state.details.content.signature : undefined),
};

/** The events with signatures, for an append after `before`; of a new stream when it is left out. */
export async function signTokenEvents(
  keyRing: Pick<KeyRing, 'hashes'>,
  tenantId: string,
  events: readonly VaultEvent[],
  before: { readonly state: TokenState; readonly revision: number } = {
    state: initialState,
    revision: noRevision,
  },
): Promise<VaultEvent[]> {
  if (!events.some(({ type }) => signedEventTypes.has(type))) return [...events];
  try {
    const hashes = await keyRing.hashes(tenantId);
    return signEvents(events, before, { evolve, signer: tokenSigner, hashes });
  } catch (error) {
    // Of a tenant that is gone nothing opens, so nothing is decided.
    if (error instanceof TenantKeysMissingError) return [...events];
    throw error;
  }
}

/**
 * A token of the log decides who sees its data by its container and its mask, so its events must be the vault's own.
 * @throws AlteredRecordError
 */
export async function requireSignedToken(
  keyRing: Pick<KeyRing, 'hashes'>,
  tenant: Pick<TenantContext, 'id'>,
  { id, type, content }: TokenDetails,
): Promise<void> {
  const hashes = await keyRing.hashes(tenant.id);
  if (!hashes.isBelieved(tokenStatementOf(id, type, content), content.signature))
    throw new AlteredRecordError('token');
}
