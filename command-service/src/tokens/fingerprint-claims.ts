import { FingerprintClaimed, FingerprintReleased, streams, type DataOf } from '@token-vault/contracts';
import type { EventStore, RecordedEvent } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/service-kit';
import { expectedAt, fact, load, type Loaded } from '../aggregates/decider.ts';

/** The tokens that say they have a fingerprint, in order of saying so. Whether they do is told by their own streams. */
export type Claimants = readonly string[];

function evolve(claimants: Claimants, event: RecordedEvent): Claimants {
  const { token_id: tokenId } = event.data as unknown as DataOf<'FingerprintClaimed'>;
  const others = claimants.filter((id) => id !== tokenId);
  if (event.type === 'FingerprintClaimed') return [...others, tokenId];
  return event.type === 'FingerprintReleased' ? others : claimants;
}

export function createFingerprintClaims(store: EventStore) {
  return {
    async read(tenantId: string, fingerprint: string): Promise<Loaded<Claimants>> {
      return load(store, streams.fingerprint(tenantId, fingerprint), { initialState: [], evolve });
    },

    /**
     * Claims the fingerprint for a token, provided that nobody has claimed it since `revision`; without `revision` in any
     * case. @throws RevisionConflictError
     */
    async claim(
      context: RequestContext,
      fingerprint: string,
      tokenId: string,
      revision?: number,
    ): Promise<void> {
      const claimed = fact(FingerprintClaimed, { fingerprint, token_id: tokenId });
      const stream = streams.fingerprint(context.principal.tenant.id, fingerprint);
      const event = withoutTransaction(context.event(claimed, claimed.data));
      await store.append(stream, [event], revision === undefined ? 'any' : expectedAt(revision));
    },

    async release(context: RequestContext, fingerprint: string, tokenId: string): Promise<void> {
      const stream = streams.fingerprint(context.principal.tenant.id, fingerprint);
      const data = { fingerprint, token_id: tokenId };
      await store.append(stream, [withoutTransaction(context.event(FingerprintReleased, data))], 'any');
    },
  };
}
export type FingerprintClaims = ReturnType<typeof createFingerprintClaims>;

/** A claim takes effect at once: it coordinates writers and is no part of what a transaction may take back. */
export function withoutTransaction<E extends { metadata: RecordedEvent['metadata'] }>(event: E): E {
  const { transaction_id: _transaction, ...metadata } = event.metadata;
  return { ...event, metadata };
}
