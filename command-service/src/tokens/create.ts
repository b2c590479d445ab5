import { shownBy } from '@token-vault/access';
import {
  authorOf,
  ConflictError,
  NotFoundError,
  streams,
  type CreateTokenBody,
  type Token,
  type TokenContent,
} from '@token-vault/contracts';
import { isRefusal } from '../aggregates/refusal.ts';
import {
  noRevision,
  RevisionConflictError,
  type AppendResult,
  type GroupMember,
  type Position,
} from '@token-vault/event-store';
import type { RequestContext, Showing } from '@token-vault/operations';
import { cvcEndOf, presentToken, sealNewToken, type TokenDetails } from '@token-vault/tokens';
import { expressionsOf } from '../dependencies.ts';
import { expectedAt } from '../aggregates/decider.ts';
import { keyIdsOf, tokenDecider } from './decider.ts';
import type { TokenDependencies } from './dependencies.ts';
import { draftToken, type TokenDraft } from './drafts.ts';
import { Duplicates } from './duplicates.ts';
import { setWithoutSightAtFirst } from './descriptions.ts';
import { eventsOf } from './enlistment.ts';
import { ExistingTokens } from './existing.ts';
import { readTokenHistory, type TokenHistory } from './history.ts';
import { withSeenFingerprint } from './shown.ts';
import { signTokenEvents } from './signed.ts';
import { transformWrittenData } from './written-data.ts';
import { evolve, initialState, isExpired } from './state.ts';

export interface CreatedToken {
  readonly token: Token;
  readonly position: Position | undefined;
  /** False when deduplication gave an existing token. */
  readonly isNew: boolean;
  /**
   * An interrupted attempt created the token before. `token` then has no data, and the rights of the caller must be
   * decided before it is shown.
   */
  readonly isRepeat?: boolean;
  /** Unset when the token has no cvc that may be shown. */
  readonly cvcEndsAt?: string | undefined;
  /** Unset when the answer shows nothing of the token. */
  readonly shown?: Showing | undefined;
}

/** The input of one attempt to write the token. */
interface Attempt {
  readonly id: string;
  /** Undefined: the stream is assumed not to exist. This is the usual case and saves a read. */
  readonly history: TokenHistory | undefined;
  readonly claim: ((tokenId: string) => Promise<void>) | undefined;
}

const maxAttempts = 20;

/** Creates tokens, alone or deduplicated. */
export class TokenCreation {
  readonly #dependencies: TokenDependencies;
  readonly #existing: ExistingTokens;
  readonly #duplicates: Duplicates;

  constructor(dependencies: TokenDependencies) {
    this.#dependencies = dependencies;
    this.#existing = new ExistingTokens(dependencies);
    this.#duplicates = new Duplicates(dependencies);
  }

  /** @throws ValidationError, ForbiddenError, ConflictError; NotFoundError for the transaction */
  async create(body: CreateTokenBody, context: RequestContext, member?: GroupMember): Promise<CreatedToken> {
    await this.#dependencies.enlistment.check(context);
    const draft = await draftToken(this.#dependencies, body, context);
    return this.createDraft({ ...draft, member }, context);
  }

  /** The transaction must have been checked before. */
  async createDraft(draft: TokenDraft, context: RequestContext): Promise<CreatedToken> {
    const { fingerprint } = draft.derived;
    const isDeduplicated = draft.deduplicate && fingerprint !== undefined;
    for (let attempt = 0; attempt < maxAttempts; attempt += 1) {
      const id = await draft.nextId();
      const created = isDeduplicated
        ? await this.#createUnlessDuplicate(draft, context, id, fingerprint)
        : await this.#createPlain(draft, context, id);
      if (created) return created;
    }
    throw new ConflictError('conflict', 'The token was written at the same time by others. Try again.');
  }

  async #createPlain(draft: TokenDraft, context: RequestContext, id: string) {
    const { fingerprint } = draft.derived;
    const claim =
      fingerprint === undefined
        ? undefined
        : (tokenId: string) => this.#dependencies.claims.claim(context, fingerprint, tokenId);
    const created = await this.#append(draft, context, { id, history: undefined, claim });
    if (created) return created;
    const history = await this.#historyOf(context, id);
    return this.#isFree(history, draft, context.now)
      ? this.#append(draft, context, { id, history, claim })
      : undefined;
  }

  async #createUnlessDuplicate(draft: TokenDraft, context: RequestContext, id: string, fingerprint: string) {
    try {
      const { duplicate, claim } = await this.#duplicates.find(context, fingerprint, {
        // The write that it waits for may be one of the group.
        onWaiting: () => draft.member?.leave(),
      });
      if (duplicate) {
        const existing = await this.#existing.show(context, duplicate, 'create');
        return {
          ...existing,
          position: undefined,
          isNew: false,
          cvcEndsAt: cvcEndOf(duplicate.content, context.now),
        };
      }
      const history = await this.#historyOf(context, id);
      return this.#isFree(history, draft, context.now)
        ? await this.#append(draft, context, { id, history, claim })
        : undefined;
    } catch (error) {
      if (error instanceof RevisionConflictError) return undefined;
      throw error;
    }
  }

  #historyOf(context: RequestContext, tokenId: string): Promise<TokenHistory> {
    const { store, outcomes } = this.#dependencies;
    return readTokenHistory({ store, outcomes }, context.principal.tenant.id, tokenId, context);
  }

  /** Whether the id is free by its stream. @throws ConflictError when the id is taken and no other may be drawn. */
  #isFree(history: TokenHistory, draft: TokenDraft, now: Date): boolean {
    const isTaken = history.state.kind === 'present' && !isExpired(history.state.details, now);
    if (!isTaken && history.lockedBy === undefined) return true;
    if (draft.idKind === 'drawn') return false;
    if (history.lockedBy !== undefined)
      throw new ConflictError('token_locked', 'The token is locked by an open transaction.');
    throw new ConflictError('token_id_taken', 'The token id is taken.');
  }

  /**
   * Appends the token's first event. Undefined when another writer changed the stream of the id or of the
   * fingerprint.
   */
  async #append(
    draft: TokenDraft,
    context: RequestContext,
    { id, history, claim }: Attempt,
  ): Promise<CreatedToken | undefined> {
    const { store, keyRing, enlistment } = this.#dependencies;
    const tenantId = context.principal.tenant.id;
    // The data is sealed before the claim, so that the claim waits for its token only as long as the append takes.
    const content = await this.#contentOf(draft, context, id);
    const state = history?.state ?? tokenDecider.initialState;
    const shown = shownBy(draft.transform, draft.mask !== undefined);
    const command = { kind: 'create', id, type: draft.type, content, shown, now: context.now } as const;
    const facts = tokenDecider.decide(state, command);
    const keys = keyIdsOf(content);
    const revision = history?.revision ?? noRevision;
    let appended: AppendResult;
    let isSent = false;
    try {
      await enlistment.begin(context, { tokenId: id, write: 'create', revision, newKeyIds: keys, facts });
      const events = await signTokenEvents(keyRing, tenantId, eventsOf(context, facts, history), history);
      await claim?.(id);
      isSent = true;
      appended = await store.append(streams.token(tenantId, id), events, expectedAt(revision), {
        keys,
        member: draft.member,
      });
    } catch (error) {
      if (!isSent || isRefusal(error)) await keyRing.destroyKeys(tenantId, keys);
      if (error instanceof RevisionConflictError) return undefined;
      throw error;
    }
    const { position } = appended;
    await enlistment.confirm(context, keys, position);
    if (context.isRepeatable) {
      const repeat = await this.#repeatOf(draft, context, id, { keys, revision: appended.revision });
      if (repeat !== 'first') return repeat;
    }
    // The id was used before: the token expired and was not swept, or its deletion was interrupted. Its keys are
    // destroyed now.
    if (history) await keyRing.destroyKeys(tenantId, history.decidedKeyIds);
    if (context.transactionId === undefined) await this.#dependencies.erasure.carryOut(tenantId, id, facts);
    const expressions = expressionsOf(this.#dependencies, context);
    const data = await transformWrittenData(expressions, draft.transform, draft, () => draft.data);
    const details = newDetails(draft, context, id, content);
    return {
      token: withSeenFingerprint(presentToken(tenantId, details, data), context.principal),
      position,
      isNew: true,
      cvcEndsAt: content.cvc_expires_at,
      shown: { permission: 'token:create', transform: shown },
    };
  }

  /**
   * The store treats the repeat of an append as done. Then the stored event is the one of the first attempt, and the
   * keys of the repeat are destroyed. Undefined when the first event does not count, because its transaction was not
   * committed.
   */
  async #repeatOf(
    draft: TokenDraft,
    context: RequestContext,
    id: string,
    { keys, revision }: { readonly keys: readonly string[]; readonly revision: number },
  ): Promise<CreatedToken | undefined | 'first'> {
    const { keyRing } = this.#dependencies;
    const tenantId = context.principal.tenant.id;
    const stored = await this.#storedAt(streams.token(tenantId, id), revision);
    if (stored && keyIdsOf(stored.content).some((keyId) => keys.includes(keyId))) return 'first';
    await keyRing.destroyKeys(tenantId, keys);
    const { state, position } = await this.#historyOf(context, id);
    if (state.kind === 'absent') return undefined;
    if (state.kind === 'ended' || state.details.createdAt !== stored?.createdAt)
      throw new NotFoundError('The token of the first request');
    // The token is shown by the caller's present rights, as for any repeat.
    const token = presentToken(tenantId, state.details, undefined);
    return {
      token,
      position,
      isNew: true,
      isRepeat: true,
      cvcEndsAt: cvcEndOf(state.details.content, context.now),
    };
  }

  /** The first event of a token. */
  async #storedAt(stream: string, revision: number): Promise<TokenDetails | undefined> {
    const { store } = this.#dependencies;
    for await (const event of store.readStream(stream, { from: revision, maxCount: 1 })) {
      const state = evolve(initialState, event);
      if (state.kind === 'present') return state.details;
    }
    return undefined;
  }

  async #contentOf(draft: TokenDraft, context: RequestContext, tokenId: string): Promise<TokenContent> {
    const place = { tenantId: context.principal.tenant.id, tokenId };
    const sealed = await sealNewToken(this.#dependencies.keyRing, place, draft, context.now);
    const { mask, containers, metadata, deduplicateToken, expiresAt, derived } = draft;
    return {
      ...sealed,
      ...(mask === undefined ? {} : { mask }),
      containers,
      ...(metadata === undefined ? {} : { metadata }),
      ...derived,
      ...(deduplicateToken === undefined ? {} : { deduplicate_token: deduplicateToken }),
      ...(expiresAt === undefined ? {} : { expires_at: expiresAt }),
      ...setWithoutSightAtFirst(context),
    };
  }
}

function newDetails(
  draft: TokenDraft,
  context: RequestContext,
  id: string,
  content: TokenContent,
): TokenDetails {
  return {
    id,
    type: draft.type,
    content,
    createdBy: authorOf(context.metadata),
    createdAt: context.metadata.occurred_at,
    modifiedBy: undefined,
    modifiedAt: undefined,
  };
}
