import { decideTokenAccess } from '@token-vault/access';
import {
  AccessDenied,
  entityTypeOfToken,
  ForbiddenError,
  TokensRead,
  ValidationError,
  type DataOf,
  type Json,
  type VaultEvent,
} from '@token-vault/contracts';
import { KeyDestroyedError, type KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import type { DetokenizedToken, TokenReferences } from '@token-vault/expressions';
import type { Clock, RequestContext } from '@token-vault/service-kit';
import { findReferences, missingMessage } from './references.ts';
import { readTokenHistory } from '../tokens/history.ts';
import { presentToken } from '../tokens/present.ts';
import { cvcEndOf, openToken } from '../tokens/sealing.ts';
import { requireSignedToken } from '../tokens/signed.ts';
import { isExpired, type TokenDetails } from '../tokens/state.ts';
import { createTransactionOutcomes } from '../transactions/outcomes.ts';

/** Tokens as reactor arguments name them (interface.md, react; rules.md §4). */
export interface TokenUse {
  /**
   * @throws ValidationError naming the arguments whose token does not exist, or that could mean two tokens; ForbiddenError
   * without `token:use` on a container
   */
  check(references: TokenReferences, context: RequestContext): Promise<void>;
  /**
   * Opens tokens that were checked before, perhaps long ago: it is decided again. `use` is the record of it: durable before anything
   * of them is shown, so it comes first, and can be made so while the tokens are being opened.
   * @throws ValidationError when one is gone meanwhile; so does `tokens`, once it is awaited, and ForbiddenError
   */
  open(tokenIds: readonly string[], context: RequestContext): Promise<OpenedTokens>;
  /** About the first of these tokens that the caller may not use now. Those that are gone are left out. */
  refusal(tokenIds: readonly string[], context: RequestContext): Promise<ForbiddenError | undefined>;
}

export interface OpenedTokens {
  readonly use: readonly VaultEvent[];
  /** When the first cvc of them ends; unset when none has one. */
  readonly cvcEndsAt?: string | undefined;
  readonly tokens: Promise<ReadonlyMap<string, DetokenizedToken>>;
}

export interface TokenUseDependencies {
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  readonly clock: Clock;
}

const missing = (tokenId: string): ValidationError => ValidationError.of('args', missingMessage(tokenId));

/** Of the first token that the caller may not use. */
function refusalOf(
  found: readonly TokenDetails[],
  { principal }: RequestContext,
): ForbiddenError | undefined {
  for (const { id, type, content } of found) {
    const token = { id, containers: content.containers };
    if (decideTokenAccess(principal, 'token:use', token).isGranted) continue;
    const detail = 'The caller lacks the permission token:use for a token of the arguments.';
    return new ForbiddenError(detail, { type: entityTypeOfToken(type), id });
  }
  return undefined;
}

const firstEnd = (found: readonly TokenDetails[], now: Date): string | undefined =>
  found
    .flatMap(({ content }) => cvcEndOf(content, now) ?? [])
    .sort((one, other) => Date.parse(one) - Date.parse(other))
    .at(0);

/** Nothing is opened; the record of that takes the place of the record of the use. */
function refused(refusal: ForbiddenError, context: RequestContext): OpenedTokens {
  const { entity } = refusal;
  const data: DataOf<'AccessDenied'> = {
    entity_type: entity?.type ?? 'token',
    ...(entity && { entity_id: entity.id }),
    permission: 'token:use',
    operation: 'react',
  };
  const tokens = Promise.reject<ReadonlyMap<string, DetokenizedToken>>(refusal);
  tokens.catch(() => undefined);
  return { use: [context.event(AccessDenied, data)], tokens };
}

async function openOne(
  keyRing: KeyRing,
  details: TokenDetails,
  context: RequestContext,
): Promise<DetokenizedToken> {
  const tenantId = context.principal.tenant.id;
  try {
    const opened = await openToken(keyRing, { tenantId, tokenId: details.id }, details.content, context.now);
    const data = opened.expose();
    // As JSON: what is undefined in a token is absent in its answer.
    const token = JSON.parse(JSON.stringify(presentToken(tenantId, details, data))) as Json;
    return { data, token };
  } catch (error) {
    if (error instanceof KeyDestroyedError) throw missing(details.id);
    throw error;
  }
}

export function createTokenUse({ store, keyRing, clock }: TokenUseDependencies): TokenUse {
  const outcomes = createTransactionOutcomes(store, clock);

  async function find(tokenId: string, context: RequestContext): Promise<TokenDetails | undefined> {
    const { state } = await readTokenHistory(store, outcomes, context.principal.tenant.id, tokenId);
    if (state.kind !== 'present' || isExpired(state.details, context.now)) return undefined;
    await requireSignedToken(keyRing, context.principal.tenant, state.details);
    return state.details;
  }

  const findAll = (tokenIds: readonly string[], context: RequestContext): Promise<TokenDetails[]> =>
    Promise.all(
      tokenIds.map(async (tokenId) => {
        const details = await find(tokenId, context);
        if (details === undefined) throw missing(tokenId);
        return details;
      }),
    );

  return {
    async check(references, context) {
      const found = await findReferences(references, (tokenId) => find(tokenId, context));
      const refusal = refusalOf(found, context);
      if (refusal) throw refusal;
    },

    async refusal(tokenIds, context) {
      const found = await Promise.all(tokenIds.map((tokenId) => find(tokenId, context)));
      return refusalOf(
        found.filter((details) => details !== undefined),
        context,
      );
    },

    async open(tokenIds, context) {
      if (tokenIds.length === 0) return { use: [], tokens: Promise.resolve(new Map()) };
      const found = await findAll(tokenIds, context);
      const refusal = refusalOf(found, context);
      if (refusal) return refused(refusal, context);
      const opened = Promise.all(
        found.map(async (details) => [details.id, await openOne(keyRing, details, context)] as const),
      ).then((entries) => new Map(entries));
      opened.catch(() => undefined);
      const used = found.map(({ id, type }) => ({
        token_id: id,
        token_type: type,
        transform: 'reveal' as const,
      }));
      const use = context.event(TokensRead, { operation: 'use', tokens: used });
      return { use: [use], tokens: opened, cvcEndsAt: firstEnd(found, context.now) };
    },
  };
}
