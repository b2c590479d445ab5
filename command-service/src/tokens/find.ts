import type { KeyRing } from '@token-vault/crypto';
import { noRevision, type EventStore } from '@token-vault/event-store';
import type { Clock, RequestContext } from '@token-vault/operations';
import type { TokenDetails } from '@token-vault/tokens';
import { createTransactionOutcomes } from '../transactions/outcomes.ts';
import { transactionLifetimeMs } from '../transactions/state.ts';
import { readTokenHistory, type TokenHistory } from './history.ts';
import type { ReadHistory } from './kept-histories.ts';
import { requireSignedToken } from './signed.ts';
import { isExpired } from './state.ts';

export interface TokenFinderDependencies {
  readonly store: EventStore;
  readonly keyRing: Pick<KeyRing, 'hashes'>;
  readonly clock: Clock;
  /** Gives histories that a request has read before. By default each is read from the log. */
  readonly readHistory?: ReadHistory;
}

/**
 * Finds a token of the caller's tenant in the log, as it is now. Undefined when it is deleted, expired or unknown.
 * @throws AlteredRecordError
 */
export type FindToken = (tokenId: string, context: RequestContext) => Promise<TokenDetails | undefined>;

/** Clocks of processes differ by less. */
const clockSkewMs = 60_000;
/** An event counts when its transaction is committed, which may be so much later than the time that the event tells. */
const countsLaterMs = transactionLifetimeMs + clockSkewMs;

/** The part of a token that decides who may see or use it, without its data. */
export interface DecidingToken extends Pick<TokenDetails, 'id' | 'type' | 'createdAt'> {
  readonly content: Pick<TokenDetails['content'], 'containers' | 'mask' | 'expires_at'>;
  /** False when it was deleted, or another token has taken its id. It may have expired. */
  readonly isThere: boolean;
}

const deciding = ({ id, type, createdAt, content }: TokenDetails, isThere: boolean): DecidingToken => {
  const { containers, mask, expires_at } = content;
  return { id, type, createdAt, content: { containers, mask, expires_at }, isThere };
};

/**
 * Finds every token that had this id since a moment, each in its last state: the present one first, then those that were
 * deleted or have expired since. When none of them was there at the moment, also the one before. An id can be used again
 * after its token was deleted. So a right that was withdrawn does not come back when the token is deleted (rules.md §2).
 * @throws AlteredRecordError
 */
export type FindTokensSince = (
  tokenId: string,
  since: Date,
  context: RequestContext,
) => Promise<readonly DecidingToken[]>;

/**
 * The newest revision before the token that was created at this time, `noRevision` when there is none. A token may have thousands of
 * versions, so they are not read one by one: the steps back double while they find the same token, and then halve.
 * @param known a revision at which the token is there
 */
async function newestBefore(
  createdAt: string,
  known: number,
  read: (newest: number) => Promise<Pick<TokenHistory, 'state' | 'base'>>,
): Promise<number> {
  let [first, before, step] = [known, noRevision, 1];
  while (first - before > 1) {
    const at = before === noRevision ? Math.max(first - step, 0) : Math.floor((first + before) / 2);
    const { state, base } = await read(at);
    const isSame = state.kind === 'present' && state.details.createdAt === createdAt;
    if (isSame) first = base;
    else before = at;
    step *= 2;
  }
  return first - 1;
}

/**
 * The time of an end is not signed, that of a creation is (ADR 20). So an end counts as old when it is known which token had the id at the
 * moment; else the token before it may be the one.
 */
const wasThere = (found: Iterable<DecidingToken>, since: Date): boolean =>
  [...found].some(({ createdAt }) => Date.parse(createdAt) <= since.getTime());

export function createTokensSinceFinder(dependencies: TokenFinderDependencies): FindTokensSince {
  const { store, keyRing, clock, readHistory } = dependencies;
  const outcomes = createTransactionOutcomes(store, clock);
  const findAll = async (
    tokenId: string,
    since: Date,
    context: RequestContext,
    known: readonly DecidingToken[] = [],
  ): Promise<readonly DecidingToken[]> => {
    const { tenant } = context.principal;
    const read = (newest?: number) =>
      newest === undefined && readHistory
        ? readHistory(tokenId, context)
        : readTokenHistory({ store, outcomes, newest }, tenant.id, tokenId);
    const found = new Map<string, DecidingToken>();
    const before = new Date(since.getTime() - clockSkewMs);
    for (let newest: number | undefined; newest !== noRevision;) {
      const isNewest = newest === undefined;
      const { state, base, baseSince } = await read(newest);
      if (state.kind === 'absent') break;
      newest = base - 1;
      // A change in a transaction counts from its commit. The expiry that it sets may be earlier, and did not count before.
      const isOld = baseSince !== undefined && new Date(baseSince) < before;
      if (state.kind === 'ended') {
        if (isOld && wasThere(found.values(), since)) break;
        continue;
      }
      if (isOld && isExpired(state.details, before)) break;
      const { createdAt } = state.details;
      if (!found.has(createdAt)) {
        await requireSignedToken(keyRing, tenant, state.details);
        found.set(createdAt, deciding(state.details, isNewest));
      }
      // A newer version of the newest token: those before it do not change any more.
      if (known[0]?.createdAt === createdAt) return [...found.values(), ...known.slice(1)];
      if (Date.parse(createdAt) < since.getTime() - countsLaterMs) break;
      newest = await newestBefore(createdAt, base, read);
    }
    return [...found.values()];
  };
  return (tokenId, since, context) => {
    const key = JSON.stringify([context.principal.tenant.id, tokenId, since]);
    return store.remembered<readonly DecidingToken[]>(key, (before) =>
      findAll(tokenId, since, context, before),
    );
  };
}

/** `seesOwn`: whether the uncommitted changes of the request's transaction count (rules.md §9). */
export function createTokenFinder(
  { store, keyRing, clock, readHistory }: TokenFinderDependencies,
  { seesOwn = false }: { readonly seesOwn?: boolean } = {},
): FindToken {
  const outcomes = createTransactionOutcomes(store, clock);
  const readOwn: ReadHistory = (tokenId, context) =>
    readTokenHistory({ store, outcomes }, context.principal.tenant.id, tokenId, context);
  const readCommitted: ReadHistory = (tokenId, { principal }) =>
    readTokenHistory({ store, outcomes }, principal.tenant.id, tokenId);
  const read = seesOwn ? readOwn : (readHistory ?? readCommitted);
  return async (tokenId, context) => {
    const { tenant } = context.principal;
    const { state } = await read(tokenId, context);
    if (state.kind !== 'present' || isExpired(state.details, context.now)) return undefined;
    await requireSignedToken(keyRing, tenant, state.details);
    return state.details;
  };
}
