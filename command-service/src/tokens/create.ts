import { shownBy } from '@token-vault/access';
import {
  authorOf,
  ConflictError,
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
  type Position,
} from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/service-kit';
import { expressionsOf } from '../dependencies.ts';
import { expectedAt } from '../aggregates/decider.ts';
import { keyIdsOf, tokenDecider } from './decider.ts';
import type { TokenDependencies } from './dependencies.ts';
import { draftToken, type TokenDraft } from './drafts.ts';
import { Duplicates } from './duplicates.ts';
import { eventsOf } from './enlistment.ts';
import { ExistingTokens } from './existing.ts';
import { readTokenHistory, type TokenHistory } from './history.ts';
import { presentToken, transformData } from './present.ts';
import { cvcEndOf, openToken, sealNewToken } from './sealing.ts';
import { requireSignedToken, signTokenEvents } from './signed.ts';
import { recordShown, shownTo, withoutUnreadable, type Shown } from './shown.ts';
import { isExpired, type TokenDetails } from './state.ts';

export interface CreatedToken {
  readonly token: Token;
  readonly position: Position | undefined;
  /** False when deduplication gave an existing token. */
  readonly isNew: boolean;
  /** Unset when it has no cvc that may be shown. */
  readonly cvcEndsAt?: string | undefined;
}

/** What one attempt to write the token rests on. */
interface Attempt {
  readonly id: string;
  /** Undefined: the stream is believed not to exist, which is the rule and saves reading it. */
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
  async create(body: CreateTokenBody, context: RequestContext): Promise<CreatedToken> {
    await this.#dependencies.enlistment.check(context);
    return this.createDraft(await draftToken(this.#dependencies, body, context), context);
  }

  /** In a transaction that has been checked. */
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
      const { duplicate, claim } = await this.#duplicates.find(context, fingerprint);
      if (duplicate) {
        const token = await this.#existing.show(context, duplicate, 'create');
        return {
          token,
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
    return readTokenHistory(store, outcomes, context.principal.tenant.id, tokenId, context);
  }

  /** What the stream says of the id. @throws ConflictError when it cannot be had and no other may be drawn. */
  #isFree(history: TokenHistory, draft: TokenDraft, now: Date): boolean {
    const isTaken = history.state.kind === 'present' && !isExpired(history.state.details, now);
    if (!isTaken && history.lockedBy === undefined) return true;
    if (draft.idKind === 'drawn') return false;
    if (history.lockedBy !== undefined)
      throw new ConflictError('token_locked', 'The token is locked by an open transaction.');
    throw new ConflictError('token_id_taken', 'The token id is taken.');
  }

  /** Appends the token's first event. Undefined when somebody else wrote to the id or the fingerprint. */
  async #append(
    draft: TokenDraft,
    context: RequestContext,
    { id, history, claim }: Attempt,
  ): Promise<CreatedToken | undefined> {
    const { store, keyRing, enlistment } = this.#dependencies;
    const tenantId = context.principal.tenant.id;
    // Sealed before the claim, so that a claim is without its token for no longer than the append takes.
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
      appended = await store.append(streams.token(tenantId, id), events, expectedAt(revision), { keys });
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
    // Under a used id: keys of a token that expired and nobody has swept yet, or whose deletion was cut off.
    if (history) await keyRing.destroyKeys(tenantId, history.decidedKeyIds);
    if (context.transactionId === undefined) await this.#dependencies.erasure.carryOut(tenantId, id, facts);
    const expressions = expressionsOf(this.#dependencies, context);
    const data = await transformData(expressions, draft.transform, draft.data, draft.mask);
    return {
      token: presentToken(tenantId, newDetails(draft, context, id, content), data),
      position,
      isNew: true,
      cvcEndsAt: content.cvc_expires_at,
    };
  }

  /**
   * The store takes the repeat of an append for done: then what is stored is what the first one brought, and the keys of the
   * repeat go. Undefined when even that did not count, its transaction having come to nothing.
   */
  async #repeatOf(
    draft: TokenDraft,
    context: RequestContext,
    id: string,
    { keys, revision }: { readonly keys: readonly string[]; readonly revision: number },
  ): Promise<CreatedToken | undefined | 'first'> {
    const { keyRing } = this.#dependencies;
    const tenantId = context.principal.tenant.id;
    if (await this.#isStored(streams.token(tenantId, id), revision, keys)) return 'first';
    await keyRing.destroyKeys(tenantId, keys);
    const { state, position } = await this.#historyOf(context, id);
    if (state.kind !== 'present' || isExpired(state.details, context.now)) return undefined;
    await requireSignedToken(keyRing, context.principal.tenant, state.details);
    const stored = state.details.content;
    const data = await openToken(keyRing, { tenantId, tokenId: id }, stored, context.now);
    // Changes that others made since are shown only to a caller that may read the token.
    const isOwn = state.details.modifiedAt === undefined;
    const shown: Shown = isOwn
      ? { transform: draft.transform, isReadable: true }
      : shownTo(context.principal, { id, containers: stored.containers }, draft.transform);
    if (!isOwn) await recordShown(this.#dependencies.audit, context, 'read', state.details, shown.transform);
    const expressions = expressionsOf(this.#dependencies, context);
    const visible = await transformData(expressions, shown.transform, data, stored.mask);
    const token = presentToken(tenantId, state.details, visible);
    return {
      token: withoutUnreadable(token, shown),
      position,
      isNew: true,
      cvcEndsAt: cvcEndOf(stored, context.now),
    };
  }

  /** Whether the event at the revision was sealed under these keys. */
  async #isStored(stream: string, revision: number, keys: readonly string[]): Promise<boolean> {
    const { store } = this.#dependencies;
    for await (const { data } of store.readStream(stream, { from: revision, maxCount: 1 }))
      return keyIdsOf(data as unknown as TokenContent).some((keyId) => keys.includes(keyId));
    return false;
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
