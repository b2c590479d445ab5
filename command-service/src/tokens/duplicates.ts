import { setTimeout as delay } from 'node:timers/promises';
import { seesEverything } from '@token-vault/access';
import { FingerprintClaimVoided, streams } from '@token-vault/contracts';
import { comparePositions, RevisionConflictError, type Position } from '@token-vault/event-store';
import type { CountedTries } from '@token-vault/http';
import type { RequestContext } from '@token-vault/operations';
import type { TokenDetails } from '@token-vault/tokens';
import { expectedAt } from '../aggregates/decider.ts';
import { outsideTransaction } from '../transactions/context.ts';
import type { TransactionOutcomes } from '../transactions/outcomes.ts';
import type { TokenDependencies } from './dependencies.ts';
import { readTokenHistory, type TokenHistory } from './history.ts';
import { hasFingerprint } from './state.ts';

/** The token that has the fingerprint, or the function that claims it. */
export interface Clearance {
  readonly duplicate: TokenDetails | undefined;
  /**
   * Called between reading the token's stream and appending to it. @throws RevisionConflictError when another writer
   * came first.
   */
  readonly claim: (tokenId: string) => Promise<void>;
}

export interface FindOptions {
  /** The token that looks for duplicates of itself. */
  readonly exceptId?: string;
  /** Called before each pause for the write of another creator. */
  readonly onWaiting?: (() => void) | undefined;
}

interface Claimant extends Pick<FindOptions, 'onWaiting'> {
  readonly fingerprint: string;
  readonly id: string;
  readonly claimedAt: Position;
}

/**
 * So many claimants are read at once, in this order. Usually the first one is enough. An open transaction may have claimed a value for
 * thousands of tokens, and each claim counts until the transaction ends.
 */
const readAtOnce = [1, 16];
const mostReadAtOnce = 128;

/** Claimants that are read at once share one reading of each transaction, so its state decides for all of its tokens. */
function sharing(outcomes: TransactionOutcomes): Pick<TransactionOutcomes, 'endIfOver'> {
  const read = new Map<string, ReturnType<TransactionOutcomes['endIfOver']>>();
  return {
    endIfOver(tenantId, transactionId) {
      const state = read.get(transactionId) ?? outcomes.endIfOver(tenantId, transactionId);
      read.set(transactionId, state);
      return state;
    },
  };
}

/** The pauses while a claim waits for its write. After them its writer counts as dead. */
const retryDelaysMs = [5, 10, 20, 40, 80, 160];

/**
 * A claim is settled when its token was written after it: by the write of the claim, or by one that makes that write
 * conflict.
 */
const isSettled = (history: TokenHistory, claimedAt: Position): boolean =>
  history.position !== undefined && comparePositions(history.position, claimedAt) > 0;

/**
 * Two writers of equal data meet on the stream of the fingerprint. Each reads the token's stream, claims the
 * fingerprint, and then appends at the revision that it read. So either the token's stream confirms a claim, or its
 * writer conflicts with the reader that ended the claim. This is safe against a crash between any two steps, because
 * only the token's own stream decides.
 */
export class Duplicates {
  readonly #dependencies: TokenDependencies;

  constructor(dependencies: TokenDependencies) {
    this.#dependencies = dependencies;
  }

  /** The live token with the fingerprint, when duplicates are not wanted. Otherwise the function that claims it. */
  async clear(
    context: RequestContext,
    fingerprint: string | undefined,
    deduplicate: boolean,
    options: FindOptions,
  ): Promise<Clearance> {
    if (fingerprint === undefined) return { duplicate: undefined, claim: async () => undefined };
    if (deduplicate) return this.#findAndRelease(context, fingerprint, options);
    const { claims } = this.#dependencies;
    return { duplicate: undefined, claim: (tokenId) => claims.claim(context, fingerprint, tokenId) };
  }

  /**
   * The live token with the fingerprint, among the tokens that the caller's transaction can see (rules.md §9:
   * committed tokens and those of the same transaction). @throws RevisionConflictError when the command must be
   * repeated.
   */
  async #findAndRelease(
    context: RequestContext,
    fingerprint: string,
    options: FindOptions,
  ): Promise<Clearance> {
    const { claims } = this.#dependencies;
    const tries = await this.#countTries(context);
    const { claimants, revision } = await claims.read(context.principal.tenant.id, fingerprint);
    const released: string[] = [];
    let duplicate: TokenDetails | undefined;
    const others = [...claimants].flatMap(([id, claimedAt]) =>
      id === options.exceptId ? [] : [{ fingerprint, id, claimedAt, onWaiting: options.onWaiting }],
    );
    for await (const { id, history } of this.#settleClaims(context, others)) {
      if (hasFingerprint(history.state, fingerprint, context.now)) {
        duplicate = history.state.details;
        break;
      }
      // An open transaction may still commit or drop its writes.
      if (!history.isPending) released.push(id);
    }
    if (duplicate) await tries.found(1);
    if (duplicate && released.length > 0) {
      await this.#tidy(() => claims.change(context, fingerprint, { release: released }, revision));
    }
    const claim = async (tokenId: string): Promise<void> => {
      try {
        await claims.change(context, fingerprint, { release: released, claim: tokenId }, revision);
      } catch (error) {
        // After a conflict the search starts again and counts again.
        if (error instanceof RevisionConflictError) await tries.found(1);
        throw error;
      }
    };
    return { duplicate, claim };
  }

  /**
   * A caller that sees every token of the tenant learns nothing by deduplication, so imports by such a caller are not
   * slowed.
   * @throws RateLimitedError
   */
  async #countTries(context: RequestContext): Promise<CountedTries> {
    const { missLimit } = this.#dependencies;
    if (seesEverything(context.principal, 'token:read')) return { found: async () => undefined };
    return missLimit.count(context, 1);
  }

  /** In the order of claiming. */
  async *#settleClaims(context: RequestContext, claimants: readonly Claimant[]) {
    for (let from = 0, look = 0; from < claimants.length; look += 1) {
      const some = claimants.slice(from, (from += readAtOnce[look] ?? mostReadAtOnce));
      const outcomes = sharing(this.#dependencies.outcomes);
      const settling = some.map(async (claimant) => {
        const history = await this.#settleClaim(context, claimant, outcomes);
        return { id: claimant.id, history };
      });
      yield* await Promise.all(settling);
    }
  }

  /**
   * Waits for a writer that has claimed and has not written yet. When the write does not come, an event on the
   * token's stream makes it conflict.
   */
  async #settleClaim(
    context: RequestContext,
    { fingerprint, id, claimedAt, onWaiting }: Claimant,
    atFirst: Pick<TransactionOutcomes, 'endIfOver'>,
  ): Promise<TokenHistory> {
    const { store, outcomes } = this.#dependencies;
    const tenantId = context.principal.tenant.id;
    const read = (of: typeof atFirst = outcomes) =>
      readTokenHistory({ store, outcomes: of }, tenantId, id, context);
    let history = await read(atFirst);
    for (const waitMs of retryDelaysMs) {
      if (isSettled(history, claimedAt)) return history;
      onWaiting?.();
      await delay(waitMs);
      history = await read();
    }
    if (isSettled(history, claimedAt)) return history;
    const voided = outsideTransaction(context).event(FingerprintClaimVoided, { fingerprint, token_id: id });
    await store.append(streams.token(tenantId, id), [voided], expectedAt(history.revision));
    return history;
  }

  /** The claim of a deleted token costs a read each time. The first writer that finds it removes it. */
  async #tidy(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!(error instanceof RevisionConflictError)) throw error;
    }
  }
}
