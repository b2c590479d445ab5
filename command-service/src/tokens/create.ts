import { shownBy } from '@token-vault/access';
import {
  authorOf,
  ConflictError,
  NotFoundError,
  streams,
  type AskedToken,
  type CreateTokenBody,
  type Token,
  type TokenContent,
} from '@token-vault/contracts';
import { noRevision, type GroupMember, type Position } from '@token-vault/event-store';
import type { RequestContext, Showing } from '@token-vault/operations';
import { cvcEndOf, presentToken, sealNewToken, type TokenDetails } from '@token-vault/tokens';
import { expressionsOf } from '../dependencies.ts';
import { writeToken, type TokenBefore } from './change.ts';
import { keyIdsOf, tokenDecider } from './decider.ts';
import type { TokenDependencies } from './dependencies.ts';
import { draftToken, type TokenDraft } from './drafts.ts';
import { Duplicates, type Clearance } from './duplicates.ts';
import { setWithoutSightAtFirst } from './descriptions.ts';
import { ExistingTokens } from './existing.ts';
import { readTokenHistory, type TokenHistory } from './history.ts';
import { shownTo, withoutContent, withSeenFingerprint } from './shown.ts';
import { transformWrittenData } from './written-data.ts';
import { evolve, initialState, isExpired } from './state.ts';

export interface CreatedToken {
  readonly token: Token;
  readonly createdAt: string;
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
  /** Set when deduplication gave an existing token: the token that was asked for. */
  readonly asked?: AskedToken;
}

/** The place of a new token, as an attempt to write it finds it. */
interface Place extends TokenBefore, Clearance {
  /** Undefined: the stream is assumed not to exist. This is the usual case and saves a read. */
  readonly history: TokenHistory | undefined;
}

const newStream = { state: initialState, revision: noRevision, base: noRevision };
const maxWrites = 20;

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
    for (let written = 0; written < maxWrites; written += 1) {
      const created = await this.#write(draft, context);
      if (created) return created;
    }
    throw new ConflictError('conflict', 'The token was written at the same time by others. Try again.');
  }

  /** Undefined when an earlier attempt of the request wrote the token in a transaction that was not committed. */
  async #write(draft: TokenDraft, context: RequestContext): Promise<CreatedToken | undefined> {
    const { keyRing, erasure } = this.#dependencies;
    const tenantId = context.principal.tenant.id;
    const { before, decided, position, revision } = await writeToken(this.#dependencies, {
      tenantId,
      write: 'create',
      load: this.#places(draft, context),
      decide: (place) => this.#decide(draft, place),
    });
    if (before.duplicate) {
      const asked = { id: before.tokenId, containers: draft.containers };
      return { ...(await this.#duplicateOf(before.duplicate, context)), asked };
    }
    const { facts, keys, content, shown } = decided;
    if (revision === undefined || !content) throw new Error('a create without a duplicate was not appended');
    const { tokenId } = before;
    if (context.isRepeatable) {
      const repeat = await this.#destroyKeysOfRepeat(draft, context, tokenId, { keys, revision });
      if (repeat !== 'first') return repeat;
    }
    // The id was used before: the token expired and was not swept, or its deletion was interrupted. Its keys are
    // destroyed now.
    if (before.history) await keyRing.destroyKeys(tenantId, before.history.decidedKeyIds);
    if (context.transactionId === undefined) await erasure.carryOut(tenantId, tokenId, facts);
    const expressions = expressionsOf(this.#dependencies, context);
    const { transform, isReadable } = draft.shownAs(tokenId);
    const data = await transformWrittenData(expressions, transform, draft, () => draft.data);
    const details = newDetails(draft, context, tokenId, content);
    const token = presentToken(tenantId, details, data);
    return {
      token: isReadable ? withSeenFingerprint(token, context.principal) : withoutContent(token),
      createdAt: details.createdAt,
      position,
      isNew: true,
      cvcEndsAt: content.cvc_expires_at,
      shown: { permission: 'token:create', transform: shown },
    };
  }

  async #duplicateOf(duplicate: TokenDetails, context: RequestContext): Promise<CreatedToken> {
    const existing = await this.#existing.show(context, duplicate, 'create');
    const { reader } = context.principal;
    const { id, content } = duplicate;
    const isKnown =
      reader === undefined || shownTo(reader, { id, containers: content.containers }).isReadable;
    const token = isKnown ? existing.token : withoutContent(existing.token);
    return { ...existing, token, position: undefined, isNew: false };
  }

  /** Gives the place of each attempt, with a free id. An id that is not drawn stays the same. */
  #places(draft: TokenDraft, context: RequestContext): () => Promise<Place> {
    const { derived, deduplicate, member } = draft;
    const { fingerprint } = derived;
    let tokenId: string | undefined;
    let isAssumedNew = !deduplicate || fingerprint === undefined;
    return async () => {
      for (;;) {
        tokenId ??= await draft.nextId();
        const clearance = await this.#duplicates.clear(context, fingerprint, deduplicate, {
          // The write that it waits for may be one of the group.
          onWaiting: () => member?.leave(),
        });
        const isUnread = isAssumedNew || clearance.duplicate !== undefined;
        const history = isUnread ? undefined : await this.#historyOf(context, tokenId);
        isAssumedNew = false;
        if (!history || this.#isFree(history, draft, context.now))
          return { tokenId, context, ...(history ?? newStream), history, ...clearance };
        tokenId = undefined;
      }
    };
  }

  #historyOf(context: RequestContext, tokenId: string): Promise<TokenHistory> {
    const { store, outcomes } = this.#dependencies;
    return readTokenHistory({ store, outcomes }, context.principal.tenant.id, tokenId, context);
  }

  /** Whether the id is free by its stream. @throws ConflictError when the id is taken and no other may be drawn. */
  #isFree(history: TokenHistory, draft: TokenDraft, now: Date): boolean {
    const isTaken = history.state.kind === 'present' && !isExpired(history.state.details, now);
    if (!isTaken && history.lockedBy === undefined) {
      if (this.#dependencies.reusesTokenIds === false && history.state.kind !== 'absent')
        throw new ConflictError('token_id_taken', 'The token with this id was deleted or has expired here.');
      return true;
    }
    if (draft.idKind === 'drawn') return false;
    if (history.lockedBy !== undefined)
      throw new ConflictError('token_locked', 'The token is locked by an open transaction.');
    throw new ConflictError('token_id_taken', 'The token id is taken.');
  }

  /** The data is sealed before the claim, so that the claim waits for its token only as long as the append takes. */
  async #decide(draft: TokenDraft, { context, tokenId: id, state, duplicate, claim }: Place) {
    const shown = shownBy(draft.shownAs(id).transform, draft.mask !== undefined);
    if (duplicate) return { facts: [], keys: [], shown };
    const content = await this.#sealContent(draft, context, id);
    const command = { kind: 'create', id, type: draft.type, content, shown, now: context.now } as const;
    const facts = tokenDecider.decide(state, command);
    const { member } = draft;
    return { facts, keys: keyIdsOf(content), member, claim: () => claim(id), content, shown };
  }

  /**
   * The store treats the repeat of an append as done. Then the stored event is the one of the first attempt, and the
   * keys of the repeat are destroyed. Undefined when the first event does not count, because its transaction was not
   * committed.
   */
  async #destroyKeysOfRepeat(
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
      createdAt: state.details.createdAt,
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

  async #sealContent(draft: TokenDraft, context: RequestContext, tokenId: string): Promise<TokenContent> {
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
