import { isDeepStrictEqual } from 'node:util';
import { decideTokenAccess, refusalText } from '@token-vault/access';
import {
  entityTypeOfToken,
  ForbiddenError,
  NotFoundError,
  TokensRead,
  type SeenToken,
  type Token,
  type Transform,
} from '@token-vault/contracts';
import { KeyDestroyedError, type KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import type { Expressions } from '@token-vault/expressions';
import type {
  AuditTrail,
  Clock,
  RequestContext,
  ShownAgain,
  StoredToken,
  TokenFacts,
  TokenReplay,
} from '@token-vault/operations';
import { cvcEndOf, presentToken, type TokenDetails } from '@token-vault/tokens';
import { outsideTransaction } from '../transactions/context.ts';
import { requireAccess } from './drafts.ts';
import { ExistingTokens } from './existing.ts';
import { createTokenFinder, createTokensSinceFinder, type FindToken } from './find.ts';
import { createOwnerDecision, type RefuseOwner } from '../invocations/code-owner.ts';
import { createSeenTokens, shownNow, type FindActor } from './seen.ts';
import { bytesOfToken, repeatTurns, TokensTurn } from './large-tokens.ts';
import { isExpired } from './state.ts';
import { shownOutput } from './outputs.ts';
import { presentAs, type PresentingDependencies } from './presented.ts';
import { hiding, readingOf, shownTo, withoutContent, type Shown } from './shown.ts';

export interface TokenReplayDependencies {
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  readonly audit: AuditTrail;
  readonly expressions: Expressions;
  readonly clock: Clock;
  readonly findActor: FindActor;
}

interface Found {
  readonly token: StoredToken;
  readonly details: TokenDetails;
}

interface Decided {
  readonly found: Found;
  readonly shown: Shown;
}

const absent = (): NotFoundError => new NotFoundError('A token of the first answer');

const unshown: Shown = { transform: 'redact', isReadable: false };

/**
 * A token of which the first answer told the caller. `createSeenTokens` decides about what code was shown. @throws
 * ForbiddenError when the caller may not be told any more
 */
function toldAgain({ token: { shown }, details }: Found, { principal }: RequestContext): Shown {
  if (shown === undefined || shown.applicationId !== undefined) return unshown;
  const now = shownNow(principal, { details, shown });
  if (now.isGranted) return { ...unshown, transform: shown.transform };
  const { type, id } = details;
  const lacking = `The caller lacks the right ${shown.permission} by which it was given the first answer.`;
  throw new ForbiddenError(refusalText(now, lacking), { type: entityTypeOfToken(type), id });
}

/** How the caller may see now a token of the first answer. @throws ForbiddenError when no rule grants it any more */
function shownAgain({ token, details }: Found, context: RequestContext): Shown {
  const { id, type, content } = details;
  const { containers } = content;
  // Changes that others made since are shown only to a caller that may read the token.
  const ofMaker = (transform: Transform): Shown =>
    details.modifiedAt === undefined
      ? { transform, isReadable: true, ...hiding(context.principal) }
      : shownTo(context.principal, { id, containers }, transform);
  switch (token.by) {
    case 'create':
      return ofMaker(requireAccess(context, 'token:create', { id, type, containers }));
    case 'update': {
      const transform = requireAccess(context, 'token:update', { id, type, containers });
      return shownTo(context.principal, { id, containers }, transform);
    }
    case 'use': {
      const access = decideTokenAccess(context.principal, 'token:use', { id, containers });
      if (access.isGranted) return { ...access, transform: 'reveal', isReadable: true };
      const lacking = 'The caller lacks the permission token:use for a token of the first answer.';
      const detail = refusalText(access, lacking);
      throw new ForbiddenError(detail, { type: entityTypeOfToken(type), id });
    }
    case 'output':
      return shownOutput(context.principal, details);
    case 'seen':
      return toldAgain({ token, details }, context);
    // `ExistingTokens` makes the answer of a duplicate.
    case 'duplicate-of-create':
    case 'duplicate-of-update':
    case 'ran':
      return unshown;
  }
}

/** A token that code of a reactor was shown, by the rights of the reactor's application. */
function seenToken({ id, by, shown }: StoredToken): SeenToken[] {
  if ((by !== 'seen' && by !== 'ran') || shown?.applicationId === undefined) return [];
  const { applicationId } = shown;
  return [{ id, shown: { ...shown, applicationId } }];
}

/** An update that told the caller of data is a reading. The record of a duplicate is made with its answer. */
const isRead = ({ at, by, shown }: StoredToken): boolean =>
  by === 'seen'
    ? shown?.applicationId === undefined && shown?.transform === 'reveal'
    : at !== undefined && !by.startsWith('duplicate');

/**
 * Whether the token is the one that was shown: each field that was shown is the same, but for the data. Two requests of the same millisecond
 * give a token the same `modified_at`.
 */
function isSameVersion({ data: _data, ...shown }: Token, details: TokenDetails): boolean {
  const plain = (token: Omit<Token, 'data'>) => JSON.parse(JSON.stringify(token)) as object;
  const present = plain(presentToken(shown.tenant_id, details, undefined));
  const { fingerprint } = details.content;
  // A duplicate that the caller may not read lacks fields (`ExistingTokens`). Of other tokens only the fingerprint may be hidden.
  const isWhole = shown.search_indexes !== undefined;
  const hidden = fingerprint === undefined ? {} : { fingerprint };
  return isDeepStrictEqual({ ...(isWhole ? hidden : present), ...plain(shown) }, present);
}

const createVersionCheck =
  (find: FindToken, clock: Clock): TokenReplay['areAsShown'] =>
  async (tokens, context) => {
    const found = await Promise.all(tokens.map(({ id }) => find(id, context)));
    const now = clock.now();
    return tokens.every((token, index) => {
      const details = found[index];
      return details && !isExpired(details, now) && isSameVersion(token, details);
    });
  };

/** A token may expire while others are read. @throws NotFoundError */
function requireUnexpired(all: readonly (Found | undefined)[], now: Date): void {
  if (all.some((found) => found && isExpired(found.details, now))) throw absent();
}

const isUse = ({ by }: StoredToken): boolean => by === 'use';

/** The record is durable before the token is shown. */
async function recordRepeat(
  audit: AuditTrail,
  decided: readonly Decided[],
  context: RequestContext,
): Promise<void> {
  const kinds = [
    { operation: 'use', belongs: isUse },
    { operation: 'read', belongs: isRead },
  ] as const;
  for (const { operation, belongs } of kinds) {
    const tokens = decided
      .filter(({ found }) => belongs(found.token))
      .map(({ found, shown }) => readingOf(found.details, shown));
    if (tokens.length > 0) await audit.record(outsideTransaction(context), TokensRead, { operation, tokens });
  }
}

/** The bytes of the tokens that the answer holds whole, so that they are opened. */
const bytesOfWhole = (decided: readonly (Decided | undefined)[]): number =>
  decided.reduce((sum, each) => sum + (each?.found.token.at ? bytesOfToken(each.found.details) : 0), 0);

/** The refusal when the reactor whose run gave the answer is gone, or has lost its application since the run was asked for. */
async function refusalOfRun(
  refuseOwner: RefuseOwner,
  tokens: readonly StoredToken[],
  { principal }: RequestContext,
): Promise<ForbiddenError | undefined> {
  for (const { id: reactorId, shown } of tokens) {
    const { ran: revision, ranSince, applicationId } = shown ?? {};
    if (revision === undefined || ranSince === undefined || applicationId !== undefined) continue;
    const owner = { reactorId, revision };
    const refusal = await refuseOwner(principal.tenant.id, owner, new Date(ranSince));
    if (refusal) return refusal;
  }
  return undefined;
}

interface Presenting extends PresentingDependencies {
  readonly existing: ExistingTokens;
}

/** The token as the answer holds it. Undefined where it does not hold the token whole. */
async function present(
  dependencies: Presenting,
  { token, details }: Found,
  shown: Shown,
  context: RequestContext,
): Promise<Token | undefined> {
  const { existing } = dependencies;
  if (token.at === undefined) return undefined;
  if (token.by === 'duplicate-of-create') return existing.showAgain(context, details, 'create');
  if (token.by === 'duplicate-of-update') return existing.showAgain(context, details, 'update');
  const present = await presentAs(dependencies, details, shown, context);
  // A further update would show its caller what others have written. A further create would not.
  return shown.isReadable || token.by === 'update' ? present : withoutContent(present);
}

/** A decision that is made again reads only the tokens that others have changed. */
function createRepeatFinder(dependencies: TokenReplayDependencies): FindToken {
  const find = createTokenFinder(dependencies, { seesOwn: true });
  return (id, context) => {
    const key = JSON.stringify(['repeat', context.principal.tenant.id, id]);
    return dependencies.store.remembered(key, () => find(id, context));
  };
}

/** Decides how the caller may see the tokens now, and whether it may have the answer. */
function createRepeatDecision(dependencies: TokenReplayDependencies, find: FindToken) {
  const { clock } = dependencies;
  const decisionOnSeen = createSeenTokens(dependencies);
  const refuseOwner = createOwnerDecision(dependencies);

  /** A token that was deleted and created again under the same id is a different token. */
  async function findSame(token: StoredToken, context: RequestContext): Promise<Found> {
    const details = await find(token.id, context);
    if (details?.createdAt !== token.createdAt) throw absent();
    return { token, details };
  }

  return async (
    tokens: readonly StoredToken[],
    context: RequestContext,
    presentOf: () => Promise<RequestContext>,
  ) => {
    const decideSeen = await decisionOnSeen(tokens.flatMap(seenToken), context.now, context);
    // None of the tokens of the answer may be gone.
    const all = await Promise.all(
      tokens.map(async (token) => (token.by === 'ran' ? undefined : findSame(token, context))),
    );
    const gone = await refusalOfRun(refuseOwner, tokens, context);
    const now = await presentOf();
    const seen = await decideSeen();
    requireUnexpired(all, clock.now());
    const decided = all.map((found) => found && { found, shown: shownAgain(found, now) });
    const refusal = seen.refusal ?? gone;
    if (refusal) throw refusal;
    return { now, seen, decided };
  };
}

/** Shows the tokens of a stored answer in their present state, by the caller's present rights (rules.md §2). */
export function createTokenReplay(dependencies: TokenReplayDependencies): TokenReplay {
  const { store, audit, clock } = dependencies;
  const existing = new ExistingTokens(dependencies);
  const find = createRepeatFinder(dependencies);
  const findSince = createTokensSinceFinder(dependencies);
  const decide = createRepeatDecision(dependencies, find);

  async function factsOf(id: string, context: RequestContext): Promise<TokenFacts | undefined> {
    const [details, all] = await Promise.all([find(id, context), findSince(id, context.now, context)]);
    // With two tokens of one id it is not known which one the answer shows.
    if (!details || all.length > 1) return undefined;
    const { createdAt, content } = details;
    return { createdAt, cvcEndsAt: content.cvc === undefined ? undefined : content.cvc_expires_at };
  }

  const again = async (found: Found, shown: Shown, context: RequestContext): Promise<ShownAgain> => ({
    cvcEndsAt: cvcEndOf(found.details.content, context.now),
    token: await present({ ...dependencies, existing }, found, shown, context),
  });

  const againAll = (decided: readonly (Decided | undefined)[], now: RequestContext) =>
    Promise.all(decided.map(async (each) => each && again(each.found, each.shown, now))).catch(
      (error: unknown) => {
        if (error instanceof KeyDestroyedError) throw absent();
        throw error;
      },
    );

  return {
    facts: (ids, context) => Promise.all(ids.map((id) => factsOf(id, context))),

    consistently: (decide) => store.consistently(decide),

    areAsShown: createVersionCheck(find, clock),

    async show(tokens, context, { present: presentOf, isOnRecord }) {
      const turn = new TokensTurn(context, repeatTurns);
      try {
        const read = () => store.consistently(() => decide(tokens, context, presentOf));
        const { now, seen, decided } = await turn.read(read, ({ decided }) => bytesOfWhole(decided));
        if (!isOnRecord) {
          const shown = decided.filter((each) => each !== undefined);
          await recordRepeat(audit, shown, now);
          await seen.record();
        }
        return await againAll(decided, now);
      } finally {
        turn.end();
      }
    },
  };
}
