import { decideTokenAccess } from '@token-vault/access';
import {
  entityTypeOfToken,
  ForbiddenError,
  TokensRead,
  ValidationError,
  type Json,
  type NewEvent,
} from '@token-vault/contracts';
import { KeyDestroyedError, type KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import type { DetokenizedToken } from '@token-vault/expressions';
import type { Clock, RequestContext } from '@token-vault/service-kit';
import { readTokenHistory } from '../tokens/history.ts';
import { presentToken } from '../tokens/present.ts';
import { openToken } from '../tokens/sealing.ts';
import { isExpired, type TokenDetails } from '../tokens/state.ts';
import { createTransactionOutcomes } from '../transactions/outcomes.ts';

/** Tokens as reactor arguments name them (interface.md, react; decisions.md §4). */
export interface TokenUse {
  /** @throws ValidationError for a token that does not exist, ForbiddenError without `token:use` on its container */
  check(tokenIds: readonly string[], context: RequestContext): Promise<void>;
  /**
   * Opens tokens that were checked before. `use` is the record of it: durable before anything of them is shown, so it comes
   * first, and can be made so while the tokens are being opened.
   * @throws ValidationError when one is gone meanwhile; so does `tokens`, once it is awaited
   */
  open(
    tokenIds: readonly string[],
    context: RequestContext,
  ): Promise<{
    readonly use: readonly NewEvent[];
    readonly tokens: Promise<ReadonlyMap<string, DetokenizedToken>>;
  }>;
}

export interface TokenUseDependencies {
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  readonly clock: Clock;
}

const missing = (): ValidationError => ValidationError.of('args', 'names a token that does not exist');

export function createTokenUse({ store, keyRing, clock }: TokenUseDependencies): TokenUse {
  const outcomes = createTransactionOutcomes(store, clock);

  async function find(tokenId: string, context: RequestContext): Promise<TokenDetails> {
    const { state } = await readTokenHistory(store, outcomes, context.principal.tenant.id, tokenId);
    if (state.kind !== 'present' || isExpired(state.details, context.now)) throw missing();
    return state.details;
  }

  const findAll = (tokenIds: readonly string[], context: RequestContext): Promise<TokenDetails[]> =>
    Promise.all(tokenIds.map((tokenId) => find(tokenId, context)));

  async function openOne(details: TokenDetails, context: RequestContext): Promise<DetokenizedToken> {
    const tenantId = context.principal.tenant.id;
    try {
      const opened = await openToken(
        keyRing,
        { tenantId, tokenId: details.id },
        details.content,
        context.now,
      );
      const data = opened.expose();
      // As JSON: what is undefined in a token is absent in its answer.
      const token = JSON.parse(JSON.stringify(presentToken(tenantId, details, data))) as Json;
      return { data, token };
    } catch (error) {
      if (error instanceof KeyDestroyedError) throw missing();
      throw error;
    }
  }

  return {
    async check(tokenIds, context) {
      for (const { id, type, content } of await findAll(tokenIds, context)) {
        const access = decideTokenAccess(context.principal, 'token:use', {
          id,
          containers: content.containers,
        });
        if (access.isGranted) continue;
        const detail = 'The caller lacks the permission token:use for a token of the arguments.';
        throw new ForbiddenError(detail, { type: entityTypeOfToken(type), id });
      }
    },

    async open(tokenIds, context) {
      if (tokenIds.length === 0) return { use: [], tokens: Promise.resolve(new Map()) };
      const found = await findAll(tokenIds, context);
      const opened = Promise.all(
        found.map(async (details) => [details.id, await openOne(details, context)] as const),
      ).then((entries) => new Map(entries));
      opened.catch(() => undefined);
      const used = found.map(({ id, type }) => ({
        token_id: id,
        token_type: type,
        transform: 'reveal' as const,
      }));
      const use = context.event(TokensRead, { operation: 'use', tokens: used });
      return { use: [use], tokens: opened };
    },
  };
}
