import {
  FingerprintClaimed,
  FingerprintReleased,
  newId,
  streams,
  type VaultEvent,
} from '@token-vault/contracts';
import { noRevision, type EventStore, type Position } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/operations';
import { expectedAt } from '../aggregates/decider.ts';
import { outsideTransaction } from '../transactions/context.ts';

/**
 * The tokens that claimed a fingerprint, and the position of each last claim. A claim comes before its write, so only
 * the token's own stream tells whether the token has the fingerprint.
 */
export interface Claims {
  readonly claimants: ReadonlyMap<string, Position>;
  readonly revision: number;
}

export function createFingerprintClaims(store: EventStore) {
  async function append(
    context: RequestContext,
    fingerprint: string,
    changes: { release: readonly string[]; claim?: string },
    revision?: number,
  ): Promise<void> {
    const { release, claim } = changes;
    const outside = outsideTransaction(context);
    const released = release.length === 0 ? {} : { released_token_ids: [...release] };
    // With ids of their own: a request that is repeated under its key may claim for another token, and a store takes a known id as stored.
    const events: VaultEvent[] =
      claim === undefined
        ? release.map((id) => outside.event(FingerprintReleased, { fingerprint, token_id: id }, newId()))
        : [outside.event(FingerprintClaimed, { fingerprint, token_id: claim, ...released }, newId())];
    const stream = streams.fingerprint(context.principal.tenant.id, fingerprint);
    await store.append(stream, events, revision === undefined ? 'any' : expectedAt(revision));
  }

  return {
    /** In the order of claiming. One mutable map, because a common value may have very many claimants. */
    async read(tenantId: string, fingerprint: string): Promise<Claims> {
      const claimants = new Map<string, Position>();
      let revision = noRevision;
      for await (const event of store.readStream(streams.fingerprint(tenantId, fingerprint))) {
        revision = event.revision;
        if (event.type !== 'FingerprintClaimed' && event.type !== 'FingerprintReleased') continue;
        const { token_id: tokenId } = event.data;
        claimants.delete(tokenId);
        if (event.type === 'FingerprintReleased') continue;
        for (const released of event.data.released_token_ids ?? []) claimants.delete(released);
        claimants.set(tokenId, event.position);
      }
      return { claimants, revision };
    },

    /** Claims the fingerprint for a token, also when other tokens have claimed it. */
    claim: (context: RequestContext, fingerprint: string, tokenId: string): Promise<void> =>
      append(context, fingerprint, { release: [], claim: tokenId }),

    /** Removes claims and adds one, unless the stream changed after `revision`. @throws RevisionConflictError */
    change: append,
  };
}
export type FingerprintClaims = ReturnType<typeof createFingerprintClaims>;
