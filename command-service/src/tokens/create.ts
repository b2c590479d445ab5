import {
  ConflictError,
  streams,
  TokenCreationAbandoned,
  type CreateTokenBody,
  type Token,
  type TokenContent,
} from '@token-vault/contracts';
import { RevisionConflictError, type Position } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/service-kit';
import { expectedAt } from '../aggregates/decider.ts';
import { keyIdsOf, tokenDecider } from './decider.ts';
import type { TokenDependencies } from './dependencies.ts';
import { draftToken, type TokenDraft } from './drafts.ts';
import { ExistingTokens } from './existing.ts';
import { readTokenHistory, type TokenHistory } from './history.ts';
import { presentToken, transformData } from './present.ts';
import { sealNewToken } from './sealing.ts';
import { hasFingerprint, isExpired, type TokenDetails } from './state.ts';

export interface CreatedToken {
  readonly token: Token;
  readonly position: Position | undefined;
  /** False when deduplication gave an existing token. */
  readonly isNew: boolean;
}

/** decisions.md §4: after so many collisions of a drawn id a UUID is used. */
const maxDraws = 10;
const maxRaces = 20;

/** Creates tokens, alone or deduplicated. */
export class TokenCreation {
  readonly #dependencies: TokenDependencies;
  readonly #existing: ExistingTokens;

  constructor(dependencies: TokenDependencies) {
    this.#dependencies = dependencies;
    this.#existing = new ExistingTokens(dependencies);
  }

  /** @throws ValidationError, ForbiddenError, ConflictError */
  async create(body: CreateTokenBody, context: RequestContext): Promise<CreatedToken> {
    return this.createDraft(await draftToken(this.#dependencies.keyRing, body, context), context);
  }

  createDraft(draft: TokenDraft, context: RequestContext): Promise<CreatedToken> {
    const { fingerprint } = draft.derived;
    const isDeduplicating = draft.deduplicate && fingerprint !== undefined;
    return isDeduplicating
      ? this.#createDeduplicated(draft, context, fingerprint)
      : this.#createPlain(draft, context);
  }

  #historyOf(context: RequestContext, tokenId: string): Promise<TokenHistory> {
    const { store, outcomes } = this.#dependencies;
    return readTokenHistory(store, outcomes, context.principal.tenant.id, tokenId, context.transactionId);
  }

  async #contentOf(draft: TokenDraft, context: RequestContext, tokenId: string): Promise<TokenContent> {
    const place = { tenantId: context.principal.tenant.id, tokenId };
    const sealed = await sealNewToken(this.#dependencies.keyRing, place, draft.type, draft.data, context.now);
    const { mask, containers, metadata, deduplicateToken, expiresAt, derived } = draft;
    return {
      ...sealed,
      ...(mask === undefined ? {} : { mask }),
      containers,
      ...(metadata === undefined ? {} : { metadata }),
      ...derived,
      ...(deduplicateToken === undefined ? {} : { deduplicate_token: deduplicateToken }),
      ...(expiresAt === undefined ? {} : { expires_at: expiresAt }),
    };
  }

  /** Appends the token's first event. Undefined when the id is taken, or was taken from under us. */
  async #append(
    draft: TokenDraft,
    context: RequestContext,
    id: string,
    history: TokenHistory | undefined,
  ): Promise<CreatedToken | undefined> {
    await this.#dependencies.enlistment.begin(context, id);
    const tenantId = context.principal.tenant.id;
    const content = await this.#contentOf(draft, context, id);
    const state = history?.state ?? tokenDecider.initialState;
    const command = { kind: 'create', id, type: draft.type, content, now: context.now } as const;
    const events = tokenDecider.decide(state, command).map((each) => context.event(each, each.data));
    try {
      const expected = history ? expectedAt(history.revision) : 'no-stream';
      const { position } = await this.#dependencies.store.append(
        streams.token(tenantId, id),
        events,
        expected,
      );
      await this.#dependencies.enlistment.confirm(context, position);
      return { token: this.#present(draft, context, id, content), position, isNew: true };
    } catch (error) {
      if (!(error instanceof RevisionConflictError)) throw error;
      // Nothing was stored under these keys, so they go at once.
      await this.#dependencies.keyRing.destroyKeys(tenantId, keyIdsOf(content));
      return undefined;
    }
  }

  #present(draft: TokenDraft, context: RequestContext, id: string, content: TokenContent): Token {
    const details: TokenDetails = {
      id,
      type: draft.type,
      content,
      createdBy: context.metadata.actor.id,
      createdAt: context.metadata.occurred_at,
      modifiedBy: undefined,
      modifiedAt: undefined,
    };
    const shown = transformData(draft.transform, draft.data, draft.mask);
    return presentToken(context.principal.tenant.id, details, shown);
  }

  /** What a stream with events says of the id. @throws ConflictError when it cannot be had and none may be drawn. */
  #isFree(history: TokenHistory, draft: TokenDraft, now: Date): boolean {
    if (history.lockedBy !== undefined) {
      if (draft.idKind === 'drawn') return false;
      throw new ConflictError('token_locked', 'The token is locked by an open transaction.');
    }
    const isTaken = history.state.kind === 'present' && !isExpired(history.state.details, now);
    if (isTaken && draft.idKind === 'literal')
      throw new ConflictError('token_id_taken', 'The token id is taken.');
    return !isTaken;
  }

  /** Without deduplication: the first attempt reads nothing, since a new stream is the rule. */
  async #createPlain(draft: TokenDraft, context: RequestContext): Promise<CreatedToken> {
    for (let draws = 0; draws < maxRaces; draws += 1) {
      const id = draws < maxDraws ? draft.nextId() : context.newEntityId();
      const { fingerprint } = draft.derived;
      if (fingerprint !== undefined) await this.#dependencies.claims.claim(context, fingerprint, id);
      const created = await this.#append(draft, context, id, undefined);
      if (created) return created;
      const history = await this.#historyOf(context, id);
      const second = this.#isFree(history, draft, context.now)
        ? await this.#append(draft, context, id, history)
        : undefined;
      if (second) return second;
    }
    throw new ConflictError('conflict', 'The token was written at the same time by others. Try again.');
  }

  /** The live token among those that claim the fingerprint. A claim without a token is a creation cut short: it is ended. */
  async #findDuplicate(
    context: RequestContext,
    fingerprint: string,
    claimants: readonly string[],
  ): Promise<TokenDetails | undefined> {
    for (const id of claimants) {
      const history = await this.#historyOf(context, id);
      const { state } = history;
      if (hasFingerprint(state, fingerprint, context.now)) return state.details;
      if (state.kind === 'absent' && history.lockedBy === undefined)
        await this.#abandon(context, id, history.revision);
    }
    return undefined;
  }

  async #abandon(context: RequestContext, id: string, revision: number): Promise<void> {
    const { transactionId: _transaction, ...outside } = context;
    const event = { ...outside.event(TokenCreationAbandoned, { token_id: id }) };
    const { transaction_id: _id, ...metadata } = event.metadata;
    await this.#dependencies.store.append(
      streams.token(context.principal.tenant.id, id),
      [{ ...event, metadata }],
      expectedAt(revision),
    );
  }

  /**
   * Two creations of equal data meet on the fingerprint's stream: the claim names the token before the token is written, and
   * whoever comes second finds it. @throws RevisionConflictError to be tried again.
   */
  async #attemptDeduplicated(
    draft: TokenDraft,
    context: RequestContext,
    fingerprint: string,
    id: string,
  ): Promise<CreatedToken | undefined> {
    const { state: claimants, revision } = await this.#dependencies.claims.read(
      context.principal.tenant.id,
      fingerprint,
    );
    const duplicate = await this.#findDuplicate(context, fingerprint, claimants);
    if (duplicate) {
      return { token: await this.#existing.show(context, duplicate), position: undefined, isNew: false };
    }
    const history = await this.#historyOf(context, id);
    if (!this.#isFree(history, draft, context.now)) return undefined;
    await this.#dependencies.claims.claim(context, fingerprint, id, revision);
    return this.#append(draft, context, id, history);
  }

  async #createDeduplicated(draft: TokenDraft, context: RequestContext, fingerprint: string) {
    for (let races = 0; races < maxRaces; races += 1) {
      try {
        const id = races < maxDraws ? draft.nextId() : context.newEntityId();
        const created = await this.#attemptDeduplicated(draft, context, fingerprint, id);
        if (created) return created;
      } catch (error) {
        if (!(error instanceof RevisionConflictError)) throw error;
      }
    }
    throw new ConflictError('conflict', 'Equal tokens are being written at the same time. Try again.');
  }
}
