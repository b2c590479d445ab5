import { setTimeout as delay } from 'node:timers/promises';
import { seesEverything } from '@token-vault/access';
import { FingerprintClaimVoided, streams } from '@token-vault/contracts';
import { comparePositions, RevisionConflictError, type Position } from '@token-vault/event-store';
import type { CountedTries, RequestContext } from '@token-vault/service-kit';
import { expectedAt } from '../aggregates/decider.ts';
import { outsideTransaction } from '../transactions/context.ts';
import type { TokenDependencies } from './dependencies.ts';
import { readTokenHistory, type TokenHistory } from './history.ts';
import { hasFingerprint, type TokenDetails } from './state.ts';

/** Whether another token has the fingerprint; if none has, the way to take it. */
export interface Clearance {
  readonly duplicate: TokenDetails | undefined;
  /** Between reading the token's stream and appending to it. @throws RevisionConflictError when somebody came first. */
  readonly claim: (tokenId: string) => Promise<void>;
}

/** How long a claim may go without the write it was made for before its writer counts as gone. */
const retryDelaysMs = [5, 10, 20, 40, 80, 160];

/** A claim is settled when its token was written after it: the write it was made for, or one that it would collide with. */
const isSettled = (history: TokenHistory, claimedAt: Position): boolean =>
  history.position !== undefined && comparePositions(history.position, claimedAt) > 0;

/**
 * Two writers of equal data meet on the fingerprint's stream. Each reads the token's stream, claims the fingerprint, and then
 * appends at the revision it has read; so a claim is borne out by the token's stream, or its writer collides with whoever
 * looked. Safe against a crash between any two steps, since nothing is believed but the token's own stream.
 */
export class Duplicates {
  readonly #dependencies: TokenDependencies;

  constructor(dependencies: TokenDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * The live token with the fingerprint, as the caller sees things (rules.md §9: committed tokens and those of the same
   * transaction). @throws RevisionConflictError to be tried again.
   */
  async find(context: RequestContext, fingerprint: string, exceptId?: string): Promise<Clearance> {
    const { claims } = this.#dependencies;
    const tries = this.#countTries(context);
    const { claimants, revision } = await claims.read(context.principal.tenant.id, fingerprint);
    const released: string[] = [];
    let duplicate: TokenDetails | undefined;
    for (const [id, claimedAt] of claimants) {
      if (id === exceptId) continue;
      const history = await this.#settledHistory(context, fingerprint, id, claimedAt);
      if (hasFingerprint(history.state, fingerprint, context.now)) {
        duplicate = history.state.details;
        break;
      }
      // What an open transaction has written may yet come or go.
      if (!history.isPending) released.push(id);
    }
    if (duplicate) tries.found(1);
    if (duplicate && released.length > 0) {
      await this.#tidy(() => claims.change(context, fingerprint, { release: released }, revision));
    }
    const claim = async (tokenId: string): Promise<void> => {
      try {
        await claims.change(context, fingerprint, { release: released, claim: tokenId }, revision);
      } catch (error) {
        // Whoever came first is looked for again, and counted again.
        if (error instanceof RevisionConflictError) tries.found(1);
        throw error;
      }
    };
    return { duplicate, claim };
  }

  /**
   * Who sees every token of the tenant learns nothing by deduplication, so imports by such a caller are not slowed.
   * @throws RateLimitedError
   */
  #countTries(context: RequestContext): CountedTries {
    const { missLimit } = this.#dependencies;
    if (seesEverything(context.principal, 'token:read')) return { found: () => undefined };
    return missLimit.count(context, 1);
  }

  /** Waits for a writer that has claimed and not yet written; one that does not come is shut out. */
  async #settledHistory(
    context: RequestContext,
    fingerprint: string,
    id: string,
    claimedAt: Position,
  ): Promise<TokenHistory> {
    const { store, outcomes } = this.#dependencies;
    const tenantId = context.principal.tenant.id;
    const read = () => readTokenHistory(store, outcomes, tenantId, id, context);
    let history = await read();
    for (const waitMs of retryDelaysMs) {
      if (isSettled(history, claimedAt)) return history;
      await delay(waitMs);
      history = await read();
    }
    if (isSettled(history, claimedAt)) return history;
    const voided = outsideTransaction(context).event(FingerprintClaimVoided, { fingerprint, token_id: id });
    await store.append(streams.token(tenantId, id), [voided], expectedAt(history.revision));
    return history;
  }

  /** Claims of tokens that are gone cost a read each time; whoever meets them first takes them away. */
  async #tidy(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!(error instanceof RevisionConflictError)) throw error;
    }
  }
}
