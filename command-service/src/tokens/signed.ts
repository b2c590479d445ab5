import type { TenantContext } from '@token-vault/access';
import {
  AlteredRecordError,
  searchIndexStatementOf,
  signedEventTypes,
  tokenStatementOf,
  type VaultEvent,
} from '@token-vault/contracts';
import { TenantKeysMissingError, type KeyRing, type TenantHashes } from '@token-vault/crypto';
import { noRevision } from '@token-vault/event-store';
import type { TokenDetails } from '@token-vault/tokens';
import { signEvents, type Signer } from '../aggregates/signing.ts';
import { evolve, initialState, type TokenState } from './state.ts';

export const tokenSigner: Signer<TokenState> = {
  statementOf: (state) => (state.kind === 'present' ? tokenStatementOf(state.details) : undefined),
  signatureOf: (state) => (state.kind === 'present' ? state.details.content.signature : undefined),
};

/** Details do not change. So those that a request keeps (`keepHistories`) are checked once. */
const believed = new WeakSet<TokenDetails>();

/** Whether the vault wrote the token as it is. */
function isGenuine(details: TokenDetails, hashes: TenantHashes): boolean {
  if (believed.has(details)) return true;
  if (!hashes.isBelieved(tokenStatementOf(details), details.content.signature)) return false;
  believed.add(details);
  return true;
}

/** Events without such a signature are of a release that made none: searches do not believe their hashes by themselves. */
export function hasGenuineIndexes(event: VaultEvent, hashes: TenantHashes): boolean {
  if (event.type !== 'TokenCreated' && event.type !== 'TokenUpdated') return true;
  const { token_id: id, index_signature: signature } = event.data;
  if (signature === undefined) return true;
  const statement = searchIndexStatementOf(id, event.data);
  return statement !== undefined && hashes.matches(statement, signature);
}

/** Searches believe the keyed hashes of a token by this signature, and need not evaluate its expressions again. */
function withSignedIndexes(event: VaultEvent, revision: number, hashes: TenantHashes): VaultEvent {
  if (event.type !== 'TokenCreated' && event.type !== 'TokenUpdated') return event;
  const statement = searchIndexStatementOf(event.data.token_id, event.data);
  if (!statement) return event;
  return { ...event, data: { ...event.data, index_signature: hashes.sign(statement, revision) } };
}

/**
 * The events with signatures, for an append after `before`. When `before` is left out, the stream is new. An altered token is not signed, because a
 * signature would make it genuine. Its cvc is purged all the same, by an event without a signature. @throws AlteredRecordError,
 * TenantKeysMissingError
 */
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
  const isPurge = events.every(({ type }) => type === 'TokenCvcPurged');
  try {
    const hashes = await keyRing.hashes(tenantId);
    const { state } = before;
    if (state.kind === 'present' && !isGenuine(state.details, hashes)) {
      if (isPurge) return [...events];
      throw new AlteredRecordError('token');
    }
    const indexed = events.map((event, index) =>
      withSignedIndexes(event, before.revision + 1 + index, hashes),
    );
    return signEvents(indexed, before, { evolve, signer: tokenSigner, hashes });
  } catch (error) {
    // The cvc of a deleted tenant's token is purged, too. Its keys may also have been taken away for a moment: then the token is refused from now on,
    // because it has no signature. Before all records are signed such a token is believed, but there an attacker needs no purge to plant one.
    if (isPurge && error instanceof TenantKeysMissingError) return [...events];
    throw error;
  }
}

/**
 * The container and the mask of a token decide who sees its data, so the signature of its events is checked.
 * @throws AlteredRecordError
 */
export async function requireSignedToken(
  keyRing: Pick<KeyRing, 'hashes'>,
  tenant: Pick<TenantContext, 'id'>,
  details: TokenDetails,
): Promise<void> {
  if (!isGenuine(details, await keyRing.hashes(tenant.id))) throw new AlteredRecordError('token');
}
