import { shownBy } from '@token-vault/access';
import {
  ConflictError,
  NotFoundError,
  streams,
  type Json,
  type PatchTokenBody,
  type TokenContent,
  type Transform,
} from '@token-vault/contracts';
import { KeyDestroyedError, type Secret } from '@token-vault/crypto';
import type { Position } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/operations';
import {
  cvcEndOf,
  lastingPart,
  openToken,
  presentToken,
  resealToken,
  typeDefaults,
  type TokenDetails,
} from '@token-vault/tokens';
import { expressionsOf } from '../dependencies.ts';
import { attemptsOf, type Attempts } from '../aggregates/attempts.ts';
import { expectedAt, retryOnConflict } from '../aggregates/decider.ts';
import { isRefusal } from '../aggregates/refusal.ts';
import { keyIdsOf, requirePresent, tokenDecider } from './decider.ts';
import type { TokenDependencies } from './dependencies.ts';
import { deriveValues, type DerivedValues } from './derived-values.ts';
import { fingerprintExpressionFor, isDeduplicated, isFingerprintAsked, requireAccess } from './drafts.ts';
import { describedBefore, setWithoutSightAfter } from './descriptions.ts';
import { Duplicates } from './duplicates.ts';
import { eventsOf } from './enlistment.ts';
import { ExistingTokens } from './existing.ts';
import { refuseBadMask } from './expression-errors.ts';
import { parseExpiry } from './expiry.ts';
import { isDataHidden, refuseUseOfHiddenData } from './hidden-data.ts';
import type { PatchAttempt } from './patch-attempt.ts';
import { readTokenHistory, type TokenHistory } from './history.ts';
import { isCvcIn, mergeData, mergeMask, mergeMetadata, replace } from './patched-fields.ts';
import { requireSignedToken, signTokenEvents } from './signed.ts';
import { recordShown, shownTo, withoutUnreadable } from './shown.ts';
import { evolve } from './state.ts';
import { repeated, type UpdatedToken } from './updated.ts';
import { transformWrittenData } from './written-data.ts';

/** The arguments of `#append` besides the change. */
interface Write {
  readonly claim: () => Promise<void>;
  readonly shown: Transform;
  readonly attempts: Attempts;
}

/** The result of the patch, before anything is sealed. */
interface Change {
  readonly data: Secret<Json>;
  readonly mask: Json | undefined;
  readonly masked: Secret<Json> | undefined;
  readonly rest: Omit<TokenContent, 'data' | 'cvc' | 'cvc_expires_at'>;
  readonly deduplicate: boolean;
}

/** Updates tokens by JSON merge patch (interface.md, PATCH /tokens/{id}; rules.md §5). */
export class TokenUpdate {
  readonly #dependencies: TokenDependencies;
  readonly #existing: ExistingTokens;
  readonly #duplicates: Duplicates;

  constructor(dependencies: TokenDependencies) {
    this.#dependencies = dependencies;
    this.#existing = new ExistingTokens(dependencies);
    this.#duplicates = new Duplicates(dependencies);
  }

  /** @throws NotFoundError, ForbiddenError, ValidationError, ConflictError */
  async update(id: string, patch: PatchTokenBody, context: RequestContext): Promise<UpdatedToken> {
    try {
      const attempts = attemptsOf(context);
      // Conflicts may hold the patch up for seconds, so each attempt is decided by the present rights of the caller.
      return await retryOnConflict(async () =>
        this.#attempt(id, patch, (await context.renewed()) ?? context, attempts),
      );
    } catch (error) {
      // The token was deleted during the update.
      if (error instanceof KeyDestroyedError) throw new NotFoundError('The token');
      throw error;
    }
  }

  async #attempt(
    id: string,
    patch: PatchTokenBody,
    context: RequestContext,
    attempts: Attempts,
  ): Promise<UpdatedToken> {
    const { store, outcomes, enlistment } = this.#dependencies;
    const tenantId = context.principal.tenant.id;
    await enlistment.check(context);
    const history = await readTokenHistory({ store, outcomes }, tenantId, id, context);
    const details = requirePresent(history.state, context.now);
    await requireSignedToken(this.#dependencies.keyRing, context.principal.tenant, details);
    const stored = await attempts.stored(store, streams.token(tenantId, id));
    if (stored) return repeated(tenantId, details, stored.position, context.now);
    const { type } = details;
    const { containers } = details.content;
    const transform = requireAccess(context, 'token:update', { id, type, containers });
    if (history.lockedBy !== undefined) {
      throw new ConflictError('token_locked', 'The token is locked by an open transaction.');
    }
    const target =
      patch.containers === null ? [typeDefaults[details.type].container] : (patch.containers ?? containers);
    const targetTransform = requireAccess(context, 'token:update', { id, type, containers: target });
    const attempt: PatchAttempt = { details, patch, context, target, transform, targetTransform };
    refuseUseOfHiddenData(attempt);

    const change = await this.#change(attempt);
    const { duplicate, claim } = await this.#clear(details, change, patch, context);
    if (duplicate) {
      const existing = await this.#existing.show(context, duplicate, 'update');
      return { ...existing, position: undefined, cvcEndsAt: cvcEndOf(duplicate.content, context.now) };
    }
    const toCaller = shownTo(context.principal, { id, containers: target }, targetTransform);
    const shown = shownBy(toCaller.transform, change.rest.mask !== undefined);
    const { updated, position } = await this.#append(attempt, history, change, { claim, shown, attempts });
    // If the transaction is rolled back, the event of the write does not count, but the caller has seen the token. So
    // the answer gets a record of its own.
    if (context.transactionId !== undefined && shown !== 'redact')
      await recordShown(this.#dependencies.audit, context, {
        operation: 'read',
        details: updated,
        transform: shown,
      });
    const expressions = expressionsOf(this.#dependencies, context);
    const open = () => change.data;
    const data = await transformWrittenData(expressions, toCaller.transform, change, open);
    const token = withoutUnreadable(presentToken(tenantId, updated, data), toCaller);
    const showing = { permission: 'token:update', transform: shown } as const;
    return { token, position, cvcEndsAt: cvcEndOf(updated.content, context.now), shown: showing };
  }

  /** Seals, claims, then appends. In this order a failure leaves only keys to destroy. */
  async #append(
    { details, patch, context }: PatchAttempt,
    history: TokenHistory,
    change: Change,
    { claim, shown, attempts }: Write,
  ): Promise<{ updated: TokenDetails; position: Position }> {
    const { store, enlistment, keyRing, erasure } = this.#dependencies;
    const tenantId = context.principal.tenant.id;
    const { id } = details;
    const sealed = await this.#reseal(details, change, patch, context);
    const content = { ...sealed, ...change.rest };
    const said = context.transactionId === undefined || shown === 'redact' ? shown : undefined;
    const command = { kind: 'update', content, shown: said, now: context.now } as const;
    const facts = tokenDecider.decide(history.state, command);
    const events = await signTokenEvents(
      keyRing,
      tenantId,
      eventsOf(context, facts, history, attempts),
      history,
    );
    const { revision } = history;
    const kept = new Set(keyIdsOf(details.content));
    const made = keyIdsOf(content).filter((keyId) => !kept.has(keyId));
    let position: Position;
    let isSent = false;
    try {
      // The transaction may have set the expiry itself in an earlier write.
      const expiresAt = history.isPending ? undefined : details.content.expires_at;
      const write = { tokenId: id, write: 'update', revision, expiresAt, newKeyIds: made, facts } as const;
      await enlistment.begin(context, write);
      await claim();
      const stream = streams.token(tenantId, id);
      isSent = true;
      ({ position } = await store.append(stream, events, expectedAt(revision), { keys: made }));
    } catch (error) {
      if (!isSent || isRefusal(error)) await keyRing.destroyKeys(tenantId, made);
      throw error;
    }
    await enlistment.confirm(context, made, position);
    if (context.transactionId === undefined) await erasure.carryOut(tenantId, id, facts);
    const after = events.reduce(
      (state, event) => evolve(state, { ...event, stream: '', revision: 0, position }),
      history.state,
    );
    return { updated: requirePresent(after, context.now), position };
  }

  async #change(attempt: PatchAttempt): Promise<Change> {
    const { details, patch, context, target } = attempt;
    const { content, type } = details;
    const isHidden = isDataHidden(attempt);
    const data = mergeData(details, await this.#open(details, context), patch.data);
    const before = describedBefore(attempt);
    const mask = mergeMask(before.mask, patch.mask);
    const expression = replace(before.fingerprint_expression, patch.fingerprint_expression);
    const expressions = expressionsOf(this.#dependencies, context);
    // A caller that may not see the data may not learn whether a mask works on it.
    const isChecked = !isHidden && (patch.mask !== undefined || patch.data !== undefined);
    const masked = isChecked ? await refuseBadMask(expressions, mask, data) : undefined;
    const metadata = mergeMetadata(content.metadata, patch.metadata);
    const deduplicateToken = replace(content.deduplicate_token, patch.deduplicate_token);
    const deduplicate = isDeduplicated(context, deduplicateToken);
    const expiresAt =
      typeof patch.expires_at === 'string'
        ? parseExpiry(patch.expires_at, context.now)
        : replace(content.expires_at, patch.expires_at);
    const derived: DerivedValues = await deriveValues(
      expressions,
      await this.#dependencies.keyRing.hashes(context.principal.tenant.id),
      {
        type,
        data: lastingPart(type, data),
        metadata,
        searchIndexes: replace(before.search_indexes, patch.search_indexes) ?? [],
        // A setting of the tenant does not add a fingerprint to hidden data.
        fingerprintExpression: isHidden
          ? before.fingerprint_expression
          : fingerprintExpressionFor(context, type, expression, deduplicate),
        isFingerprintAsked: isFingerprintAsked(type, expression, patch),
      },
    );
    const rest = {
      ...(mask === undefined ? {} : { mask }),
      containers: [...target],
      ...(metadata === undefined ? {} : { metadata }),
      ...derived,
      ...setWithoutSightAfter(attempt),
      ...(deduplicateToken === undefined ? {} : { deduplicate_token: deduplicateToken }),
      ...(expiresAt === undefined ? {} : { expires_at: expiresAt }),
    };
    return { data, mask, masked, rest, deduplicate };
  }

  #open(details: TokenDetails, context: RequestContext): Promise<Secret<Json>> {
    const place = { tenantId: context.principal.tenant.id, tokenId: details.id };
    return openToken(this.#dependencies.keyRing, place, details.content, context.now);
  }

  #reseal(details: TokenDetails, change: Change, patch: PatchTokenBody, context: RequestContext) {
    const { content } = details;
    if (patch.data === undefined) {
      const { data, cvc, cvc_expires_at: keptUntil } = content;
      return cvc === undefined || keptUntil === undefined
        ? { data }
        : { data, cvc, cvc_expires_at: keptUntil };
    }
    const place = { tenantId: context.principal.tenant.id, tokenId: details.id };
    const { type } = details;
    const changed = { type, data: change.data, before: content, isCvcGiven: isCvcIn(patch.data) };
    return resealToken(this.#dependencies.keyRing, place, changed, context.now);
  }

  /** The live token of equal content, when deduplication asks for it. Otherwise the claim to make. */
  async #clear(
    { id, content }: TokenDetails,
    change: Change,
    patch: PatchTokenBody,
    context: RequestContext,
  ): Promise<{ duplicate: TokenDetails | undefined; claim: () => Promise<void> }> {
    const { fingerprint } = change.rest;
    const isAsked = fingerprint !== content.fingerprint || patch.deduplicate_token === true;
    if (fingerprint === undefined || !isAsked) return { duplicate: undefined, claim: async () => undefined };
    if (!change.deduplicate) {
      const claim = () => this.#dependencies.claims.claim(context, fingerprint, id);
      return { duplicate: undefined, claim };
    }
    const { duplicate, claim } = await this.#duplicates.find(context, fingerprint, { exceptId: id });
    return { duplicate, claim: () => claim(id) };
  }
}
