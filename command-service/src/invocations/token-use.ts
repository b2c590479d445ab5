import { decideTokenAccess, refusalText, type TokenAccess } from '@token-vault/access';
import {
  entityTypeOfToken,
  ForbiddenError,
  isAmong,
  TokensRead,
  type SeenToken,
  type VaultEvent,
} from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import type { TokenReferences } from '@token-vault/expressions';
import {
  createAuditTrail,
  deniedEvent,
  type AuditTrail,
  type Clock,
  type RequestContext,
} from '@token-vault/operations';
import type { TokenDetails } from '@token-vault/tokens';
import { findReferences, findWithinBounds, readAtOnce, type TokenLookup } from './references.ts';
import { missing, useTokens, type OpenedData, type UsedTokens } from './opened-data.ts';
import {
  createTokenFinder,
  createTokensSinceFinder,
  type DecidingToken,
  type FindTokensSince,
} from '../tokens/find.ts';
import { keepHistories } from '../tokens/kept-histories.ts';
import { isExpired } from '../tokens/state.ts';
import { createTransactionOutcomes } from '../transactions/outcomes.ts';

/** The tokens that reactor arguments name (interface.md, react; rules.md §4). */
export interface TokenUse {
  /**
   * @throws ValidationError naming the arguments whose token does not exist, or that may refer to two tokens;
   * ForbiddenError without `token:use` on a container
   */
  check(references: TokenReferences, context: RequestContext): Promise<void>;
  /**
   * Checks that the tokens, which were taken at `since` or later, still exist, and that the caller may use them.
   * @param madeAt `created_at` by id. A later token with the same id does not count
   * @throws ValidationError naming the place of a token that is gone; ForbiddenError
   */
  checkTaken(
    references: TokenReferences,
    madeAt: ReadonlyMap<string, string>,
    since: Date,
    context: RequestContext,
  ): Promise<void>;
  /**
   * Opens tokens that were checked before, and gives what `make` makes of their data. The check may be old, so the rights are decided again.
   * `use` is the record of the use. It must be durable before the code sees the data; it can be appended while the tokens are being opened.
   * @throws ValidationError when a token was deleted meanwhile; so does `made`, once it is awaited, and
   * ForbiddenError
   */
  open<Made>(
    tokenIds: readonly string[],
    context: RequestContext,
    make: (tokens: OpenedData) => Promise<Made>,
  ): Promise<UsedTokens<Made>>;
  /**
   * Checks tokens and opens them at once; `make` and `use` as above.
   * @throws as `check`
   */
  take<Made>(
    references: TokenReferences,
    context: RequestContext,
    make: (tokens: OpenedData) => Promise<Made>,
  ): Promise<UsedTokens<Made>>;
  /** Whether each of these tokens, which were seen at `since` or later, still exists, whoever asks. A later token with the same id does not count. */
  areThere(tokens: readonly SeenToken[], since: Date, context: RequestContext): Promise<boolean>;
  /**
   * Reads the last states of tokens that were used since a moment, those that are gone included. What it gives decides about them: the
   * refusal for the first that the caller may not use. The rights of the caller are found afterwards, because reading takes longer.
   */
  decisionOn(tokenIds: readonly string[], since: Date, context: RequestContext): Promise<DecideUse>;
  /**
   * Uses tokens that expressions of code name, for each of these callers: what `open` records is durable when it resolves. Ids of no token
   * are passed over. @throws ForbiddenError for the first that a caller may not use now; ValidationError when they have more than 4 MiB of data
   * together
   */
  useNamed(tokenIds: readonly string[], callers: readonly RequestContext[]): Promise<void>;
}

/** The refusal for the first of the tokens that the caller may not use. */
type DecideUse = (context: RequestContext) => ForbiddenError | undefined;

export interface TokenUseDependencies {
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  readonly clock: Clock;
}

type Usable = Omit<DecidingToken, 'isThere'>;

const accessTo = ({ id, content }: Usable, { principal }: RequestContext): TokenAccess =>
  decideTokenAccess(principal, 'token:use', { id, containers: content.containers });

/** The refusal for the first token that the caller may not use. */
function refusalOf(found: readonly Usable[], context: RequestContext): ForbiddenError | undefined {
  for (const details of found) {
    const access = accessTo(details, context);
    if (access.isGranted) continue;
    const { id, type } = details;
    const withoutIt = 'The caller lacks the permission token:use for a token that the request names.';
    const detail = refusalText(access, withoutIt);
    const { actor, authorizedBy } = context.principal;
    const lacking = { actor, authorizedBy, permission: 'token:use' as const };
    return new ForbiddenError(detail, { type: entityTypeOfToken(type), id }, lacking);
  }
  return undefined;
}

/** The tokens are read in several steps, so that many large ones are not in memory together. */
async function readInParts<Found>(
  tokenIds: readonly string[],
  find: (tokenId: string) => Promise<readonly Found[]>,
): Promise<Found[]> {
  const read: Found[] = [];
  for (let at = 0; at < tokenIds.length; at += readAtOnce)
    read.push(...(await Promise.all(tokenIds.slice(at, at + readAtOnce).map(find))).flat());
  return read;
}

/** The entry of the record for a token that is used, which is always in plaintext. */
const readToken = ({ id, type }: Pick<TokenDetails, 'id' | 'type'>, access: TokenAccess) => ({
  token_id: id,
  token_type: type,
  transform: 'reveal' as const,
  ...(access.isGranted && access.isBreakGlass ? { break_glass: true as const } : {}),
});

interface DecidedUse {
  readonly refusal: ForbiddenError | undefined;
  /** The record of the use, or that of the refusal in its place. */
  readonly use: readonly VaultEvent[];
}

/** Decides whether the caller may use the tokens. */
function decideUse(found: readonly TokenDetails[], context: RequestContext): DecidedUse {
  const refusal = refusalOf(found, context);
  if (refusal) {
    const asked = { entity: { type: 'token' }, permission: 'token:use' } as const;
    return { refusal, use: [deniedEvent(context, refusal, asked)] };
  }
  if (found.length === 0) return { refusal, use: [] };
  const tokens = found.map((details) => readToken(details, accessTo(details, context)));
  return { refusal, use: [context.event(TokensRead, { operation: 'use', tokens })] };
}

/** Records the use of tokens by all of these callers. @throws ForbiddenError */
async function recordUse(
  audit: AuditTrail,
  callers: readonly RequestContext[],
  find: (context: RequestContext) => Promise<readonly TokenDetails[]>,
): Promise<void> {
  const uses: VaultEvent[] = [];
  for (const context of callers) {
    const { refusal, use } = decideUse(await find(context), context);
    if (refusal) throw refusal;
    uses.push(...use);
  }
  const [first] = callers;
  if (first && uses.length > 0) await audit.recordAll(first, uses);
}

/** Finds the tokens that have these ids now. */
type FindThere = (
  tokenIds: readonly string[],
  since: Date,
  context: RequestContext,
) => Promise<readonly DecidingToken[]>;

/** Reads the tokens as the decision about used and seen tokens does. A token may expire while others are read. */
const thereFinder =
  (findSince: FindTokensSince, clock: Clock): FindThere =>
  async (tokenIds, since, context) => {
    const found = await readInParts(tokenIds, (id) => findSince(id, since, context));
    const now = clock.now();
    return found.filter((token) => token.isThere && !isExpired(token, now));
  };

const takenCheck =
  (findThere: FindThere): TokenUse['checkTaken'] =>
  async ({ tokens }, madeAt, since, context) => {
    const ids = [...tokens.keys()];
    const there = await findThere(ids, since, context);
    const gone = ids.find((id) => !there.some((each) => each.id === id && each.createdAt === madeAt.get(id)));
    if (gone !== undefined) throw missing(gone, tokens.get(gone));
    const refusal = refusalOf(there, context);
    if (refusal) throw refusal;
  };

export function createTokenUse(dependencies: TokenUseDependencies): TokenUse {
  const { store, keyRing, clock } = dependencies;
  const readHistory = keepHistories({ store, outcomes: createTransactionOutcomes(store, clock) });
  const find = createTokenFinder({ ...dependencies, readHistory });
  const findSince = createTokensSinceFinder({ ...dependencies, readHistory });
  const findThere = thereFinder(findSince, clock);

  const lookup = (context: RequestContext): TokenLookup => ({
    find: (tokenId) => find(tokenId, context),
    isUsable: (details) => accessTo(details, context).isGranted,
  });

  const findAll = async (tokenIds: readonly string[], context: RequestContext): Promise<TokenDetails[]> => {
    const found = await findWithinBounds(tokenIds, lookup(context));
    return found.map((details, index) => {
      if (details === undefined) throw missing(tokenIds[index] ?? '');
      return details;
    });
  };

  return {
    take(references, context, make) {
      const find = () => findReferences(references, lookup(context));
      const decide = (found: readonly TokenDetails[]) => {
        const { refusal, use } = decideUse(found, context);
        if (refusal) throw refusal;
        return { use };
      };
      return useTokens(keyRing, { context, find, decide, fields: references.tokens, make });
    },

    async check(references, context) {
      const refusal = refusalOf(await findReferences(references, lookup(context)), context);
      if (refusal) throw refusal;
    },

    checkTaken: takenCheck(findThere),

    async areThere(tokens, since, context) {
      const ids = [...new Set(tokens.map(({ id }) => id))];
      return tokens.every(isAmong(await findThere(ids, since, context)));
    },

    async decisionOn(tokenIds, since, context) {
      const found = await readInParts(tokenIds, (id) => findSince(id, since, context));
      return (present) => refusalOf(found, present);
    },

    async useNamed(tokenIds, callers) {
      const findNamed = async (context: RequestContext) =>
        (await findWithinBounds(tokenIds, lookup(context))).filter((details) => details !== undefined);
      await recordUse(createAuditTrail(store), callers, findNamed);
    },

    open(tokenIds, context, make) {
      const find = () => findAll(tokenIds, context);
      return useTokens(keyRing, { context, find, decide: (found) => decideUse(found, context), make });
    },
  };
}
